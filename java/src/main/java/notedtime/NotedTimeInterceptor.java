package notedtime;

import static notedtime.Topic.MS;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.ProducerInterceptor;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Notes time for any producer in Java: {@code interceptor.classes=notedtime.NotedTimeInterceptor}.
 *
 * <p>In flight are the timestamps of the records that were sent and are not acknowledged. Under one
 * lock, the time of a note is the least of the clock less the delay and what is in flight, and its
 * position the offsets acknowledged. So each record of a lower timestamp lies below the position,
 * and none follows, if timestamps are at most the delay behind the clock when they come here. A
 * record without a timestamp is stamped under the same lock: then a delay of 0 is exact.
 *
 * <p>All that takes time is done by one daemon thread: it looks up the topic's id, takes the
 * writer's name over, then looks up where the topic ends, so that what a former process wrote is
 * covered, and then notes. Records that are sent meanwhile are counted. Producing never fails
 * because of this class: it logs.
 *
 * <p>A failure in the thread of send is that of the last record which this thread sent: it is taken
 * out of flight at once. Of any other failure Kafka does not say which record it was: then what is
 * in flight for longer than a delivery takes at most is taken out.
 */
public final class NotedTimeInterceptor<K, V> implements ProducerInterceptor<K, V> {
    private static final int CLOSE_MS = 10_000, LOOKS = 60, SET_BACK_MS = 10_000, KINDS = 20;

    private final Map<String, Topic> topics = new ConcurrentHashMap<>();
    /** Of a thread: the topic of the last record sent, and its timestamp or why it failed. */
    private final ThreadLocal<Map.Entry<String, Object>> last = new ThreadLocal<>();
    private Settings settings;
    private Topic.Log log;
    private Post post;
    private Thread thread;
    private long closeBy;
    private volatile boolean on;

    @Override public ProducerRecord<K, V> onSend(ProducerRecord<K, V> record) {
        last.set(null);
        if (!on || record == null) return record;
        Topic topic = topics.get(record.topic());
        if (topic == null) {
            topic = topics.computeIfAbsent(record.topic(),
                name -> new Topic(name, settings, log));
            LockSupport.unpark(thread);
        }
        Long given = record.timestamp();
        long stamp;
        synchronized (topic) {
            if (topic.stopped) return record;
            stamp = given != null ? given : System.currentTimeMillis();
            if (given == null && stamp < topic.claimed && topic.claimed - stamp < SET_BACK_MS)
                stamp = topic.claimed;  // the clock was set back a little
            topic.sent(stamp);
        }
        last.set(Map.entry(topic.name, stamp));
        return given != null ? record : new ProducerRecord<>(record.topic(), record.partition(),
            stamp, record.key(), record.value(), record.headers());
    }

    @Override public void onAcknowledgement(RecordMetadata at, Exception error) {
        Topic topic = at == null ? null : topics.get(at.topic());
        if (topic == null) return;
        synchronized (topic) {
            if (topic.stopped) return;
            if (error != null) fail(topic, error);
            else if (!topic.arrived(at.partition(), at.offset(), at.timestamp())) topic.stop(
                "a record was acknowledged with a timestamp that was not sent; if the topic has "
                + "message.timestamp.type=LogAppendTime, " + Settings.OBSERVE + " (broker-time); "
                + "if another interceptor changes timestamps, list it before this one");
        }
    }

    private void fail(Topic topic, Exception error) {
        boolean isOwn = !Thread.currentThread().getName().startsWith(
            "kafka-producer-network-thread");
        var sent = isOwn ? last.get() : null;
        Object found = sent != null && sent.getKey().equals(topic.name) ? sent.getValue() : null;
        if (found == error) return;  // clients of 3.1 report some twice
        if (isOwn) last.set(Map.entry(topic.name, error));
        boolean isKnown = found instanceof Long;
        if (settings.stops || !isKnown && settings.longest > Settings.HOUR_MS) {
            topic.stop("a record was not delivered, and may be sent again (" + error
                + "); create the producer again");
            return;
        }
        if (!isKnown) topic.lost++;
        else if (topic.landed((Long) found))
            topic.dropped = Math.max(topic.dropped, (Long) found);
        if (topic.said.add("failed " + isKnown)) topic.say(Level.WARNING, "a record was not "
            + "delivered (" + error + "): time advances without it" + (isKnown ? "" : ", but only "
            + "after " + settings.longest + " ms, as Kafka does not say which one it was")
            + ". If it is sent again with its timestamp, it may be late. Further ones are treated "
            + "alike, and not logged");
    }

    /** Notes a last time and goes idle; gives up after ten seconds, and returns in fifteen. */
    @Override public void close() {
        if (!on) return;
        closeBy = System.nanoTime() + CLOSE_MS * MS;
        on = false;
        LockSupport.unpark(thread);
        try {
            thread.join(CLOSE_MS + Settings.ANSWER_MS);
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
    }

    @Override public void configure(Map<String, ?> given) {
        String client = Settings.clientOf(given);
        try {
            settings = new Settings(given);
            log = new Topic.Log(settings);
            thread = new Thread(this::run, "noted-time " + client);
            thread.setDaemon(true);
            on = true;
            thread.start();
        } catch (RuntimeException | LinkageError error) {
            Topic.Log.nothing(client, error.getMessage());
        }
    }

    private void run() {
        try {
            post = new Post(settings);
            work();
        } catch (Throwable error) {
            on = false;
            Topic.Log.nothing(settings.client, error);
        }
    }

    private void work() {
        while (on) {
            long next = System.nanoTime() + settings.period * MS;
            for (Topic topic : topics.values()) {
                if (topic.due - System.nanoTime() <= 0) attempt(topic);
                next = Math.min(next, topic.due);
            }
            if (on) LockSupport.parkNanos(this, Math.max(1, next - System.nanoTime()));
        }
        for (Topic topic : topics.values())
            while (!attempt(topic) && System.nanoTime() < closeBy) LockSupport.parkNanos(50 * MS);
    }

    /** Does what is due for a topic, or at the end the last of it; returns whether it worked. */
    private boolean attempt(Topic topic) {
        topic.due = System.nanoTime() + settings.period * MS;
        try {
            if (topic.stopped) return true;
            topic.dropLost();
            if (!topic.joined || topic.doubts != topic.settled || System.nanoTime() > topic.lookAt)
                look(topic);
            post.note(topic);
            if (!on && topic.isDone()) post.idle(topic);
            if (topic.failures > 0) topic.say(Level.INFO, "notes are accepted again");
            topic.troubles.clear();
            topic.failures = 0;
        } catch (Throwable error) {  // an Error, too: no fault of one note ends the thread
            if (error instanceof LinkageError) topic.stop("Kafka's client has to be 3.1 or newer ("
                + error + ")");
            if (topic.stopped) return true;
            String why = error instanceof IOException ? error.getMessage() : error.toString();
            if (topic.troubles.size() < KINDS && topic.troubles.add(why.split(":")[0]))
                topic.say(Level.WARNING, "retrying: " + why);
            double backoff = Math.min(5_000, 100L << Math.min(topic.failures++, 6));
            topic.due = System.nanoTime() + (long) (backoff * (0.5 + Math.random() / 2) * MS);
        }
        return topic.failures == 0;
    }

    /** Joins, and looks up where the topic ends, if in doubt, and whether it is still the same. */
    private void look(Topic topic) throws Exception {
        Map<String, Object> given = new HashMap<>(settings.config);
        given.keySet().retainAll(AdminClientConfig.configNames());
        given.remove("metric.reporters");
        given.putAll(Map.of("client.id", settings.client + "-noted-time",
            "request.timeout.ms", Settings.ANSWER_MS,
            "default.api.timeout.ms", Settings.ANSWER_MS));
        topic.lookAt = System.nanoTime() + LOOKS * topics.size() * settings.period * MS;
        Admin admin = Admin.create(given);
        try {
            TopicDescription now = described(admin, topic);
            if (!topic.joined && !topic.stopped) {
                post.join(topic);
                now = described(admin, topic);  // a former process may have written to more
            }
            int doubts = topic.doubts;
            if (topic.stopped || doubts == topic.settled) return;
            var asked = new HashMap<TopicPartition, OffsetSpec>();
            for (var each : now.partitions())
                asked.put(new TopicPartition(topic.name, each.partition()), OffsetSpec.latest());
            var ends = admin.listOffsets(asked).all().get();
            asked.replaceAll((at, latest) -> OffsetSpec.maxTimestamp());
            var newest = admin.listOffsets(asked).all().get();
            synchronized (topic) {
                ends.forEach((at, end) -> topic.reach(at.partition(), end.offset()));
                for (var each : newest.values())
                    topic.newest = Math.max(topic.newest, each.timestamp());
            }
            topic.settled = doubts;
        } catch (ExecutionException error) {
            if (topic.joined && topic.doubts == topic.settled)
                return;  // it is looked again, and signs of life go on
            throw new IOException("the topic cannot be looked up: " + error.getCause());
        } finally {
            admin.close(Duration.ZERO);
        }
    }

    /** Returns what the topic is now; if it is another one, no more is noted. */
    private TopicDescription described(Admin admin, Topic topic) throws Exception {
        var found = admin.describeTopics(List.of(topic.name)).allTopicNames().get();
        TopicDescription now = found.get(topic.name);
        if (topic.id != null && !topic.id.equals(now.topicId())) topic.stop("the topic was "
            + "deleted and created again; do so with its stream, too, and then the producer");
        topic.id = now.topicId();
        return now;
    }
}
