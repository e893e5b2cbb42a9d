import java.io.*;
import java.lang.management.ManagementFactory;
import java.nio.file.*;
import java.util.Properties;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.*;

/**
 * A producer that knows nothing of noted time: it sends the lines of its input to a topic.
 *
 * <p>A line is a timestamp in ms, a partition and a value, with tabs between; each may be empty. "*N"
 * stands for N records without a timestamp. After that, or an empty line, all is delivered, and the
 * CPU time of the process meanwhile is printed, in ns. The serializer refuses the value "refused".
 * In place of one that begins with "?" the value "instead" is sent if it is not delivered.
 */
public class LineProducer {
    private static final String REFUSED_VALUE = "refused";

    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.load(Files.newBufferedReader(Path.of(arguments[0])));
        String topic = arguments[1];
        var keySerializer = new StringSerializer();
        Serializer<String> valueSerializer = (name, value) -> {
            if (value.equals(REFUSED_VALUE)) throw new SerializationException("as planned");
            return keySerializer.serialize(name, value);
        };
        var lines = new BufferedReader(new InputStreamReader(System.in));
        var machine = (com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean();
        try (var producer = new KafkaProducer<>(settings, keySerializer, valueSerializer)) {
            for (String line; (line = lines.readLine()) != null; ) {
                long startNs = machine.getProcessCpuTime();
                String[] columns = line.split("\t", -1);
                if (columns.length == 3) {
                    send(producer, topic, columns);
                    continue;
                }
                int count = line.isEmpty() ? 0 : Integer.parseInt(line.substring(1));
                for (int number = 0; number < count; number++)
                    producer.send(new ProducerRecord<>(topic, line));
                producer.flush();
                System.out.println(machine.getProcessCpuTime() - startNs);
            }
        }
    }

    /** Sends a record: its timestamp and partition may be empty. */
    private static void send(Producer<String, String> producer, String topic, String[] columns) {
        Long stamp = columns[0].isEmpty() ? null : Long.valueOf(columns[0]);
        Integer partition = columns[1].isEmpty() ? null : Integer.valueOf(columns[1]);
        String value = columns[2];
        Callback callback = null;
        if (value.startsWith("?")) callback = (metadata, error) -> {
            if (error != null) producer.send(new ProducerRecord<>(topic, "instead"));
        };
        try {
            producer.send(new ProducerRecord<>(topic, partition, stamp, null, value), callback);
        } catch (SerializationException error) {
            System.err.println(error);
        }
    }
}
