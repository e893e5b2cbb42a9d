"""The class of a Protobuf message with a time, as a compiler would make it."""

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.timestamp_pb2 import Timestamp

FILE = FileDescriptorProto(
    name="flight.proto", syntax="proto3", dependency=[Timestamp.DESCRIPTOR.file.name]
)
FILE.message_type.add(name="Flight").field.add(
    name="at",
    number=1,
    type=FieldDescriptorProto.TYPE_MESSAGE,
    label=FieldDescriptorProto.LABEL_OPTIONAL,
    type_name=f".{Timestamp.DESCRIPTOR.full_name}",
)

Flight = message_factory.GetMessageClass(
    descriptor_pool.Default().Add(FILE).message_types_by_name["Flight"]
)
