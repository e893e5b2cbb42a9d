import java.io.*;
import java.lang.management.ManagementFactory;
import java.nio.file.*;
import java.util.Properties;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer that knows nothing of noted time: it sends the lines of its input to a topic.
 *
 * <p>A line is a timestamp in ms, a key and a value, with tabs between; each may be empty. An empty
 * line waits until all is delivered, which it says. Of "*N", N records are sent without a timestamp,
 * and the CPU time of the process meanwhile is printed, in ns.
 */
public class LineProducer {
    public static void main(String[] given) throws Exception {
        var settings = new Properties();
        settings.load(Files.newBufferedReader(Path.of(given[0])));
        var text = new StringSerializer();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        var machine = (com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean();
        try (var producer = new KafkaProducer<>(settings, text, text)) {
            for (String line; (line = lines.readLine()) != null; ) {
                long begun = machine.getProcessCpuTime();
                String[] fields = line.split("\t", -1);
                int count = line.startsWith("*") ? Integer.parseInt(line.substring(1)) : 1;
                boolean isRecord = fields.length == 3;
                var stamp = isRecord && !fields[0].isEmpty() ? Long.valueOf(fields[0]) : null;
                for (int sent = 0; sent < count && !line.isEmpty(); sent++)
                    producer.send(new ProducerRecord<>(given[1], null, stamp,
                        isRecord ? fields[1] : null, isRecord ? fields[2] : line));
                if (isRecord) continue;
                producer.flush();
                System.out.println(machine.getProcessCpuTime() - begun);
            }
        }
    }
}
