"""Lists, reads and creates the files of a log, in directories and in object stores."""

from noted_time.stores.objects import store_of
from noted_time.stores.places import LogPath, ObjectPath, locate_root, parse_root
from noted_time.stores.port import LogStore, Version
