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
    private static final int CLOSE_MS = 10_000;
    private static final int CLOSING_PAUSE_MS = 50;
    private static final int PERIODS_A_LOOK = 60;
    private static final int SET_BACK_MS = 10_000;
    private static final int MOST_TROUBLES = 20;
    private static final String NETWORK_THREAD = "kafka-producer-network-thread";

    private final Map<String, Topic> topics = new ConcurrentHashMap<>();
    /** For each thread: the topic of the last record sent, and its timestamp or its failure. */
    private final ThreadLocal<Map.Entry<String, Object>> lastSent = new ThreadLocal<>();
    private Settings settings;
    private Topic.Log log;
    private Post post;
    private Thread thread;
    private long closeBy;
    private volatile boolean isOn;

    @Override public ProducerRecord<K, V> onSend(ProducerRecord<K, V> record) {
        lastSent.set(null);
        if (!isOn || record == null) return record;
        Topic topic = openTopic(record.topic());
        Long recordStamp = record.timestamp();
        long stamp;
        synchronized (topic) {
            if (topic.isStopped) return record;
            stamp = recordStamp == null ? readClock(topic) : recordStamp;
            topic.recordSent(stamp);
        }
        lastSent.set(Map.entry(topic.name, stamp));
        if (recordStamp != null) return record;
        return new ProducerRecord<>(record.topic(), record.partition(), stamp, record.key(),
            record.value(), record.headers());
    }

    private Topic openTopic(String name) {
        Topic topic = topics.get(name);
        if (topic == null) {
            topic = topics.computeIfAbsent(name, newName -> new Topic(newName, settings, log));
            LockSupport.unpark(thread);
        }
        return topic;
    }

    /** Returns the clock, or the claimed time if the clock was set back a little. */
    private static long readClock(Topic topic) {
        long now = System.currentTimeMillis();
        boolean wasSetBack = now < topic.claimedTime && topic.claimedTime - now < SET_BACK_MS;
        return wasSetBack ? topic.claimedTime : now;
    }

    @Override public void onAcknowledgement(RecordMetadata metadata, Exception error) {
        Topic topic = metadata == null ? null : topics.get(metadata.topic());
        if (topic == null) return;
        synchronized (topic) {
            if (topic.isStopped) return;
            if (error != null) {
                fail(topic, error);
                return;
            }
            boolean wasSent = topic.recordArrival(
                metadata.partition(), metadata.offset(), metadata.timestamp());
            if (!wasSent) topic.stop("a record was acknowledged with a timestamp that was not "
                + "sent; if the topic has message.timestamp.type=LogAppendTime, "
                + Settings.OBSERVE + " (timestamp); if another interceptor changes timestamps, "
                + "list it before this one");
        }
    }

    /** Handles a failure of the last record that this thread sent, or of an unknown record. */
    private void fail(Topic topic, Exception error) {
        boolean isInSend = !Thread.currentThread().getName().startsWith(NETWORK_THREAD);
        Object stampOrFailure = isInSend ? findLastSent(topic) : null;
        if (stampOrFailure == error) return;  // clients of version 3.1 report some failures twice
        if (isInSend) lastSent.set(Map.entry(topic.name, error));
        boolean isKnown = stampOrFailure instanceof Long;
        boolean takesTooLong = !isKnown && settings.longestDeliveryMs > Settings.HOUR_MS;
        if (settings.stopsOnFailure || takesTooLong) {
            topic.stop("a record was not delivered, and may be sent again (" + error
                + "); create the producer again");
            return;
        }
        if (isKnown) {
            topic.dropFailed((Long) stampOrFailure);
        } else {
            topic.lostCount++;
        }
        if (topic.loggedKinds.add("failed " + isKnown)) warnOfFailure(topic, error, isKnown);
    }

    /** Returns what this thread last sent to the topic: its timestamp or its failure, or null. */
    private Object findLastSent(Topic topic) {
        Map.Entry<String, Object> last = lastSent.get();
        if (last == null || !last.getKey().equals(topic.name)) return null;
        return last.getValue();
    }

    private void warnOfFailure(Topic topic, Exception error, boolean isKnown) {
        String wait = "";
        if (!isKnown) wait = ", but only after " + settings.longestDeliveryMs + " ms, as Kafka "
            + "does not say which one it was";
        topic.say(Level.WARNING, "a record was not delivered (" + error + "): time advances "
            + "without it" + wait + ". If it is sent again with its timestamp, it may be late. "
            + "Later failures are handled alike, but not logged");
    }

    /** Notes a last time and goes idle, in at most 10 s or until a person must act (401, 403, 404). */
    @Override public void close() {
        if (!isOn) return;
        closeBy = System.nanoTime() + CLOSE_MS * MS;
        isOn = false;
        LockSupport.unpark(thread);
        try {
            thread.join(CLOSE_MS + Settings.ANSWER_MS);
        } catch (InterruptedException interruption) {
            Thread.currentThread().interrupt();
        }
    }

    @Override public void configure(Map<String, ?> config) {
        String client = Settings.nameClient(config);
        try {
            settings = new Settings(config);
            log = new Topic.Log(settings);
            thread = new Thread(this::run, "noted-time " + client);
            thread.setDaemon(true);
            isOn = true;
            thread.start();
        } catch (RuntimeException | LinkageError error) {
            Topic.Log.sayNothingIsNoted(client, error.getMessage());
        }
    }

    private void run() {
        try {
            post = new Post(settings);
            noteUntilClosed();
            noteLastTimes();
        } catch (Throwable error) {
            isOn = false;
            Topic.Log.sayNothingIsNoted(settings.client, error);
        }
    }

    private void noteUntilClosed() {
        while (isOn) {
            long nextDueAt = System.nanoTime() + settings.periodMs * MS;
            for (Topic topic : topics.values()) {
                if (topic.dueAt - System.nanoTime() <= 0) attempt(topic);
                nextDueAt = Math.min(nextDueAt, topic.dueAt);
            }
            long restNs = nextDueAt - System.nanoTime();
            if (isOn) LockSupport.parkNanos(this, Math.max(1, restNs));
        }
    }

    private void noteLastTimes() {
        for (Topic topic : topics.values()) {
            while (!attempt(topic) && !topic.isRefused && System.nanoTime() < closeBy)
                LockSupport.parkNanos(CLOSING_PAUSE_MS * MS);
        }
    }

    /** Posts the notes that are due for a topic, and returns whether it succeeded. */
    private boolean attempt(Topic topic) {
        topic.dueAt = System.nanoTime() + settings.periodMs * MS;
        topic.isRefused = false;
        try {
            if (topic.isStopped) return true;
            topic.dropLost();
            boolean hasDoubts = topic.doubts != topic.settledDoubts;
            if (!topic.isJoined || hasDoubts || System.nanoTime() > topic.lookDueAt) look(topic);
            post.note(topic);
            if (!isOn && topic.isDone()) post.idle(topic);
            if (topic.failures > 0) topic.say(Level.INFO, "notes are accepted again");
            topic.loggedTroubles.clear();
            topic.failures = 0;
        } catch (Throwable error) {  // an Error as well, so that the thread survives it
            if (error instanceof LinkageError)
                topic.stop("Kafka's client has to be 3.1 or newer (" + error + ")");
            if (topic.isStopped) return true;
            retryLater(topic, error);
        }
        return topic.failures == 0;
    }

    /** Logs a trouble once until the next success, and puts the next attempt off. */
    private void retryLater(Topic topic, Throwable error) {
        String reason = error instanceof IOException ? error.getMessage() : error.toString();
        String kind = reason.split(":")[0];
        if (topic.loggedTroubles.size() < MOST_TROUBLES && topic.loggedTroubles.add(kind))
            topic.say(Level.WARNING, "retrying: " + reason);
        topic.dueAt = System.nanoTime() + backoff(topic.failures, post) * MS;
        topic.failures++;
    }

    /** Returns the ms until the next attempt. It is not before the controller's Retry-After. */
    static long backoff(int failures, Post post) {
        long step = Math.min(5_000, 100L << Math.min(failures, 6));
        return (long) (step * (0.5 + Math.random() / 2)) + post.retryAfterMs;
    }

    /** Joins if necessary, looks up the ends of the topic, and checks that it is the same. */
    private void look(Topic topic) throws Exception {
        Map<String, Object> adminConfig = buildAdminConfig();
        long lookPeriodMs = PERIODS_A_LOOK * topics.size() * settings.periodMs;
        topic.lookDueAt = System.nanoTime() + lookPeriodMs * MS;
        Admin admin = Admin.create(adminConfig);
        try {
            TopicDescription description = describe(admin, topic);
            if (!topic.isJoined && !topic.isStopped) {
                post.join(topic);
                // an earlier process may have added partitions
                description = describe(admin, topic);
            }
            int doubts = topic.doubts;
            if (topic.isStopped || doubts == topic.settledDoubts) return;
            readEnds(admin, topic, description);
            topic.settledDoubts = doubts;
        } catch (ExecutionException error) {
            if (topic.isJoined && topic.doubts == topic.settledDoubts)
                return;  // the next look-up tries again, and notes continue
            throw new IOException("the topic cannot be looked up: " + error.getCause());
        } finally {
            admin.close(Duration.ofMillis(1));  // with 0 it waits for its thread without a limit
        }
    }

    /** Returns the part of the producer's configuration that an admin client has. */
    private Map<String, Object> buildAdminConfig() {
        Map<String, Object> adminConfig = new HashMap<>(settings.config);
        adminConfig.keySet().retainAll(AdminClientConfig.configNames());
        adminConfig.remove("metric.reporters");
        adminConfig.put("client.id", settings.client + "-noted-time");
        adminConfig.put("request.timeout.ms", Settings.ANSWER_MS);
        adminConfig.put("default.api.timeout.ms", Settings.ANSWER_MS);
        return adminConfig;
    }

    /** Returns the topic's description. If the topic was recreated, noting stops. */
    private TopicDescription describe(Admin admin, Topic topic) throws Exception {
        var descriptions = admin.describeTopics(List.of(topic.name)).allTopicNames().get();
        TopicDescription description = descriptions.get(topic.name);
        if (topic.id != null && !topic.id.equals(description.topicId()))
            topic.stop("the topic was deleted and created again: delete and create its stream, "
                + "too, then the producer");
        topic.id = description.topicId();
        return description;
    }

    private static void readEnds(Admin admin, Topic topic, TopicDescription description)
            throws Exception {
        var specs = new HashMap<TopicPartition, OffsetSpec>();
        for (var info : description.partitions())
            specs.put(new TopicPartition(topic.name, info.partition()), OffsetSpec.latest());
        var ends = admin.listOffsets(specs).all().get();
        specs.replaceAll((partition, latest) -> OffsetSpec.maxTimestamp());
        var newestRecords = admin.listOffsets(specs).all().get();
        synchronized (topic) {
            ends.forEach((partition, end) -> topic.reach(partition.partition(), end.offset()));
            for (var newest : newestRecords.values())
                topic.newestInTopic = Math.max(topic.newestInTopic, newest.timestamp());
        }
    }
}
