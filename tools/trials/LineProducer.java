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
    public static void main(String[] given) throws Exception {
        var settings = new Properties();
        settings.load(Files.newBufferedReader(Path.of(given[0])));
        var text = new StringSerializer();
        Serializer<String> value = (topic, line) -> {
            if (line.equals("refused")) throw new SerializationException("as planned");
            return text.serialize(topic, line);
        };
        var lines = new BufferedReader(new InputStreamReader(System.in));
        var machine = (com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean();
        try (var producer = new KafkaProducer<>(settings, text, value)) {
            Callback instead = (at, error) -> {
                if (error != null) producer.send(new ProducerRecord<>(given[1], "instead"));
            };
            for (String line; (line = lines.readLine()) != null; ) {
                long begun = machine.getProcessCpuTime();
                String[] row = line.split("\t", -1);
                if (row.length == 3) {
                    try {
                        producer.send(new ProducerRecord<>(given[1],
                            row[1].isEmpty() ? null : Integer.valueOf(row[1]),
                            row[0].isEmpty() ? null : Long.valueOf(row[0]), null, row[2]),
                            row[2].startsWith("?") ? instead : null);
                    } catch (SerializationException refused) {
                        System.err.println(refused);
                    }
                    continue;
                }
                int count = line.isEmpty() ? 0 : Integer.parseInt(line.substring(1));
                while (count-- > 0) producer.send(new ProducerRecord<>(given[1], line));
                producer.flush();
                System.out.println(machine.getProcessCpuTime() - begun);
            }
        }
    }
}
