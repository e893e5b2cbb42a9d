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
 * <p>A record is in flight until it is acknowledged. The time of a note is the clock less the
 * delay, or the least timestamp in flight if that is smaller. Its position has the acknowledged
 * offsets. Both are read under one lock. So all records with smaller timestamps lie below the
 * position, if a timestamp is at most the delay behind the clock when its record is sent. A record
 * without a timestamp is stamped under the same lock, so it needs no delay.
 *
 * <p>One daemon thread does all slow work. It looks up the topic's id, takes over the writer's
 * name, looks up the ends of the topic, and then notes. So the first note covers the records of an
 * earlier process. Producing never fails because of this class: errors are logged.
 *
 * <p>If a failure is reported in the thread of send, it belongs to the last record that this thread
 * sent, which is no longer in flight. Kafka does not tell the record of any other failure. Then all
 * records that are in flight for longer than a delivery can take are removed.
 */
public final class NotedTimeInterceptor<K, V> implements ProducerInterceptor<K, V> {
    private static final int CLOSE_MS = 10_000, LOOKS = 60, SET_BACK_MS = 10_000, KINDS = 20;

    private final Map<String, Topic> topics = new ConcurrentHashMap<>();
    /** For each thread: the topic of the last record sent, and its timestamp or its failure. */
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
                + "message.timestamp.type=LogAppendTime, " + Settings.OBSERVE + " (timestamp); "
                + "if another interceptor changes timestamps, list it before this one");
        }
    }

    private void fail(Topic topic, Exception error) {
        boolean isOwn = !Thread.currentThread().getName().startsWith(
            "kafka-producer-network-thread");
        var sent = isOwn ? last.get() : null;
        Object found = sent != null && sent.getKey().equals(topic.name) ? sent.getValue() : null;
        if (found == error) return;  // clients of version 3.1 report some failures twice
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
            + ". If it is sent again with its timestamp, it may be late. Later failures are "
            + "handled alike, but not logged");
    }

    /** Notes a last time and goes idle, in at most 10 s or until a person must act (401, 403, 404). */
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
            while (!attempt(topic) && !topic.refused && System.nanoTime() < closeBy)
                LockSupport.parkNanos(50 * MS);
    }

    /** Posts the notes that are due for a topic, and returns whether it succeeded. */
    private boolean attempt(Topic topic) {
        topic.due = System.nanoTime() + settings.period * MS;
        topic.refused = false;
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
        } catch (Throwable error) {  // an Error as well, so that the thread survives it
            if (error instanceof LinkageError) topic.stop("Kafka's client has to be 3.1 or newer ("
                + error + ")");
            if (topic.stopped) return true;
            String why = error instanceof IOException ? error.getMessage() : error.toString();
            if (topic.troubles.size() < KINDS && topic.troubles.add(why.split(":")[0]))
                topic.say(Level.WARNING, "retrying: " + why);
            topic.due = System.nanoTime() + backoff(topic.failures++, post) * MS;
        }
        return topic.failures == 0;
    }

    /** Returns the ms until the next attempt. It is not before the controller's Retry-After. */
    static long backoff(int failures, Post post) {
        long step = Math.min(5_000, 100L << Math.min(failures, 6));
        return (long) (step * (0.5 + Math.random() / 2)) + post.retryAfter;
    }

    /** Joins if necessary, looks up the ends of the topic, and checks that it is the same. */
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
                now = described(admin, topic);  // an earlier process may have added partitions
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
                return;  // the next look-up tries again, and notes continue
            throw new IOException("the topic cannot be looked up: " + error.getCause());
        } finally {
            admin.close(Duration.ofMillis(1));  // with 0 it waits for its thread without a limit
        }
    }

    /** Returns the topic's description. If the topic was recreated, noting stops. */
    private TopicDescription described(Admin admin, Topic topic) throws Exception {
        var found = admin.describeTopics(List.of(topic.name)).allTopicNames().get();
        TopicDescription now = found.get(topic.name);
        if (topic.id != null && !topic.id.equals(now.topicId())) topic.stop("the topic was "
            + "deleted and created again: delete and create its stream, too, then the producer");
        topic.id = now.topicId();
        return now;
    }
}
