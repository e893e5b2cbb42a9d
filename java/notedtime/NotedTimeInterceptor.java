package notedtime;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.net.http.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;

/**
 * Notes time for any producer in Java: {@code interceptor.classes=notedtime.NotedTimeInterceptor}.
 *
 * <p>In flight are the timestamps of the records that {@link #onSend} has seen and
 * {@link #onAcknowledgement} has not. Under one lock, the time of a note is the least of the clock
 * less the delay and what is in flight, and its position the offsets acknowledged. So each record
 * with a lower timestamp lies below the position, and none follows, as long as the application's
 * timestamps are at most the delay behind the clock. A record without a timestamp is stamped under
 * the same lock: then a delay of 0 is exact.
 *
 * <p>All that takes time is done by one daemon thread for each producer. It takes the writer's name
 * over, then looks up where the topic ends, so that what a former process wrote is covered, and
 * then notes; records that are sent meanwhile are counted. Only the latest state is kept. Producing
 * never fails because of this class: it logs, each thing once.
 */
public final class NotedTimeInterceptor<K, V> implements ProducerInterceptor<K, V> {
    private static final System.Logger LOG = System.getLogger("noted_time.interceptor");
    private static final long NEVER = Long.MIN_VALUE, MS = 1_000_000;
    private static final int CLOSE_MS = 10_000, ANSWER_MS = 5_000, LOOK_MS = 60_000;
    private static final Set<String> SETTINGS = new TreeSet<>(Set.of("url", "writer", "token",
        "delay.ms", "order", "period.ms", "timeout.ms", "domain"));
    private static final Set<String> NAMES = ConcurrentHashMap.newKeySet();
    private static final String OBSERVE = "have `noted-time observe kafka` note for the topic";

    private final Map<String, Topic> topics = new ConcurrentHashMap<>();
    private final List<String> urls = new ArrayList<>();
    private final String session = UUID.randomUUID().toString();
    private Map<String, ?> config;
    private HttpClient http;
    private String client, writer, label, token, domain;
    private boolean byStamps;
    private long delay, period, timeout, sequence, closeBy;
    private Thread thread;
    private volatile boolean on;

    /** What is in flight to a topic, and how far it is written; the lock is its own. */
    private final class Topic {
        final String name;
        final TreeMap<Long, int[]> inFlight = new TreeMap<>();
        int[] latest = {0};
        long latestStamp, largest = NEVER, claimed = NEVER, noted = NEVER, lower = NEVER;
        long newest = NEVER;  // in the topic when it was looked up, of any writer
        long lateBelow = Long.MAX_VALUE, late, leastLate = Long.MAX_VALUE, arrivals, covered = -1;
        long[] ends = {}, acknowledged = {};
        volatile boolean stopped;
        volatile int doubts = 1;

        // of the thread alone
        final Map<String, Long> known = new HashMap<>();
        final Set<String> said = new HashSet<>(), troubles = new HashSet<>();
        Uuid id;
        boolean tookOver, joined, declares = true;
        int settled, failures;
        long due = System.nanoTime(), lookAt = due, failedAt;

        Topic(String name) {
            this.name = name;
        }

        void sent(long stamp) {
            if (stamp != latestStamp || latest[0] == 0) {  // most share the former's millisecond
                latest = inFlight.computeIfAbsent(stamp, any -> new int[1]);
                latestStamp = stamp;
            }
            latest[0]++;
            if (stamp > largest) largest = stamp;
            if (stamp >= lateBelow) return;
            late++;
            leastLate = Math.min(leastLate, stamp);
        }

        /** Counts a record as written; returns false if none of its timestamp was in flight. */
        boolean arrived(int partition, long offset, long stamp) {
            reach(partition + 1);
            if (offset < acknowledged[partition]) doubts++;  // unknown after a retry, or recreated
            else acknowledged[partition] = offset + 1;
            if (offset >= ends[partition]) ends[partition] = offset + 1;
            arrivals++;
            int[] count = inFlight.get(stamp);
            if (count != null && --count[0] == 0) inFlight.remove(stamp);
            return count != null;
        }

        void reach(int partitions) {
            if (partitions <= ends.length) return;
            ends = Arrays.copyOf(ends, partitions);
            acknowledged = Arrays.copyOf(acknowledged, partitions);
        }

        /** Returns the time below which all is written, NEVER if none is known. */
        long time(long clock) {
            long time = byStamps ? largest : clock;
            if (time != NEVER) time -= delay;
            if (!inFlight.isEmpty()) time = Math.min(time, inFlight.firstKey());
            return Math.max(time, claimed);
        }

        void claim(long time) {
            claimed = time;
            lateBelow = Math.max(time, lower);
        }

        synchronized void stop(String why) {
            if (!stopped) say(Level.ERROR, this, "no more is noted: " + why);
            stopped = true;
            inFlight.clear();
        }

        String position() {
            var text = new StringJoiner(",", ",'position':{", "}");
            for (int p = 0; p < ends.length; p++) text.add("'" + p + "':" + ends[p]);
            return text.toString();
        }
    }

    // Where records pass

    @Override
    public ProducerRecord<K, V> onSend(ProducerRecord<K, V> record) {
        if (!on || record == null) return record;
        Topic topic = topics.get(record.topic());
        if (topic == null) {
            topic = topics.computeIfAbsent(record.topic(), name -> new Topic(name));
            LockSupport.unpark(thread);
        }
        Long given = record.timestamp();
        long stamp;
        synchronized (topic) {
            if (topic.stopped) return record;
            stamp = given != null ? given : System.currentTimeMillis();
            if (given == null && stamp < topic.claimed && topic.claimed - stamp < 10_000)
                stamp = topic.claimed;  // the clock was set back a little
            topic.sent(stamp);
        }
        return given != null ? record : new ProducerRecord<>(record.topic(), record.partition(),
            stamp, record.key(), record.value(), record.headers());
    }

    @Override
    public void onAcknowledgement(RecordMetadata at, Exception error) {
        Topic topic = at == null ? null : topics.get(at.topic());
        if (topic == null) return;
        synchronized (topic) {
            if (topic.stopped) return;
            if (error != null) topic.stop("a record was not delivered, and may be sent again ("
                + error + "); create the producer again");
            else if (!topic.arrived(at.partition(), at.offset(), at.timestamp())) topic.stop(
                "a record was acknowledged with a timestamp that was not sent; if the topic has "
                + "message.timestamp.type=LogAppendTime, " + OBSERVE + " (--by broker-time); if "
                + "another interceptor changes timestamps, list it before this one");
        }
    }

    /** Notes a last time and goes idle, within ten seconds. */
    @Override
    public void close() {
        if (!on) return;
        closeBy = System.nanoTime() + CLOSE_MS * MS;
        on = false;
        LockSupport.unpark(thread);
        try {
            thread.join(CLOSE_MS + ANSWER_MS);
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
    }

    // The settings

    @Override
    public void configure(Map<String, ?> given) {
        config = given;
        client = text("client.id", "").replaceAll("[^A-Za-z0-9._-]", "-");
        try {
            read();
            http = HttpClient.newBuilder().connectTimeout(Duration.ofMillis(ANSWER_MS))
                .version(HttpClient.Version.HTTP_1_1).build();  // without offers of an upgrade
            thread = new Thread(this::run, "noted-time " + client);
            thread.setDaemon(true);
            on = true;
            thread.start();
        } catch (RuntimeException | LinkageError error) {
            on = false;
            LOG.log(Level.ERROR, "noted time: nothing is noted by producer " + client + ": "
                + error.getMessage());
        }
    }

    private void read() {
        for (String name : config.keySet()) refuse(name.startsWith("noted.time.")
            && !SETTINGS.contains(name.substring(11)), name + " is none of its settings " + SETTINGS);
        refuse(text("transactional.id", null) != null, "transactional.id is set, and a record is "
            + "acknowledged before its transaction is committed; " + OBSERVE);
        refuse(text("acks", "").equals("0"), "acks=0 reports no offsets; leave it out, or " + OBSERVE);
        for (String each : text("noted.time.url", "").split(",")) {
            String at = each.trim().replaceAll("/+$", "");
            refuse(at.contains("@"), "noted.time.url cannot have a user or password");
            refuse(!at.matches("(?i)https?://[^/].*") || at.endsWith("/v1")
                || URI.create(at).getHost() == null, "noted.time.url=" + at
                + " is not the URL of a controller: use http://127.0.0.1:7464");
            urls.add(at);
        }
        delay = ms("delay.ms", 0, 0);
        period = ms("period.ms", 1000, 10);
        timeout = ms("timeout.ms", 0, period + 1);
        String order = text("noted.time.order", "clock");
        byStamps = order.equals("stamps");
        refuse(!byStamps && !order.equals("clock"), "noted.time.order=" + order
            + " is neither clock nor stamps");
        domain = name("domain");
        writer = name("writer");
        token = text("noted.time.token", Objects.toString(System.getenv("NOTED_TIME_TOKEN"), ""));
        token = token.trim();
        refuse(!token.matches("[!-~]*"), "the token has characters that no token has");
    }

    private static void refuse(boolean wrong, String why) {
        if (wrong) throw new IllegalArgumentException(why);
    }

    private String text(String name, String otherwise) {
        return config.get(name) == null ? otherwise : config.get(name).toString();
    }

    private long ms(String name, long otherwise, long least) {
        String text = text("noted.time." + name, null);
        if (text == null) return otherwise;
        refuse(!text.matches("\\d{1,15}") || Long.parseLong(text) < least, "noted.time." + name
            + "=" + text + " is not a number of ms, at least " + least);
        return Long.parseLong(text);
    }

    /** Returns the name in a setting, in which {client.id} stands for that of the producer. */
    private String name(String setting) {
        String name = text("noted.time." + setting, null);
        if (name == null) return null;
        name = name.replace("{client.id}", client);
        refuse(!name.matches("(?!\\.\\.?$)[A-Za-z0-9._-]{1,249}"), "noted.time." + setting + "="
            + name + " is not a name: up to 249 of A-Z, a-z, 0-9, '.', '_' and '-'");
        return name;
    }

    // The thread

    private void run() {
        String[] process = ManagementFactory.getRuntimeMXBean().getName().split("@");
        label = (process[1] + ":" + process[0]).replaceAll("[^A-Za-z0-9._:-]", "-");
        String name = client + "-" + label.replace(':', '-'), unique = name;
        for (int other = 2; !NAMES.add(unique); other++) unique = name + "-" + other;
        if (writer == null) writer = unique.substring(Math.max(0, unique.length() - 249));
        while (on) {
            long next = System.nanoTime() + period * MS;
            for (Topic topic : topics.values()) {
                if (topic.due - System.nanoTime() <= 0) attempt(topic);
                next = Math.min(next, topic.due);
            }
            if (on) LockSupport.parkNanos(this, Math.max(1, next - System.nanoTime()));
        }
        for (Topic topic : topics.values())
            while (!attempt(topic) && System.nanoTime() - closeBy < 0) LockSupport.parkNanos(50 * MS);
        NAMES.remove(unique);
    }

    /** Does what is due for a topic; returns whether it worked. */
    private boolean attempt(Topic topic) {
        long begun = System.nanoTime();
        topic.due = begun + period * MS;
        try {
            if (!topic.stopped) serve(topic, !on);
            if (!topic.troubles.isEmpty()) say(Level.INFO, topic, "notes are accepted again, after "
                + (begun - topic.failedAt) / MS + " ms");
            topic.troubles.clear();
            topic.failures = 0;
            return true;
        } catch (Exception | LinkageError error) {
            if (topic.stopped) return true;
            if (topic.troubles.isEmpty()) topic.failedAt = begun;
            String why = error instanceof IOException ? error.getMessage() : error.toString();
            if (topic.troubles.add(why.split(":")[0])) say(Level.WARNING, topic, "retrying: " + why);
            long backoff = Math.min(5_000, 100L << Math.min(topic.failures++, 6));
            topic.due = System.nanoTime() + (long) (backoff * (0.5 + Math.random() / 2) * MS);
            return false;
        }
    }

    private void say(Level level, Topic topic, String sentence) {
        LOG.log(level, "noted time: writer " + writer + " of " + topic.name + ": " + sentence);
    }

    private void serve(Topic topic, boolean leaves) throws Exception {
        if (!topic.joined) join(topic);
        int doubts = topic.doubts;
        if (doubts != topic.settled || topic.lookAt - System.nanoTime() < 0) look(topic, doubts);
        note(topic);
        String last;
        synchronized (topic) {
            last = leaves && !topic.stopped && topic.inFlight.isEmpty() ? topic.position() : null;
        }
        if (last != null) post(topic, ",'state':'idle'" + last);
    }

    /** Takes the name over: from then on no former process notes under it. */
    private void join(Topic topic) throws Exception {
        String answer = post(topic, (timeout > 0 ? ",'timeout_ms':" + timeout : "")
            + (domain != null ? ",'domains':['" + domain + "']" : ""));
        Matcher each = pattern("'(\\d+)':(\\d+)").matcher(found("'position':\\{([^}]*)", answer, ""));
        topic.known.clear();
        while (each.find()) topic.known.put(each.group(1), Long.valueOf(each.group(2)));
        String time = "'" + (domain == null ? "default" : domain) + "':(-?\\d+)";
        String times = found("'times':\\{([^}]*)", answer, "");
        synchronized (topic) {
            topic.claim(Math.max(topic.claimed, number(time, times, NEVER)));
            topic.noted = topic.claimed;
            if (topic.leastLate >= topic.lateBelow) topic.late = 0;
            topic.doubts++;
        }
        topic.joined = true;
    }

    /** Looks up where the topic ends, if that is in doubt, and whether it is still the same. */
    private void look(Topic topic, int doubts) throws Exception {
        Map<String, Object> given = new HashMap<>(config);
        given.keySet().retainAll(AdminClientConfig.configNames());
        given.remove("metric.reporters");
        given.putAll(Map.of("client.id", client + "-noted-time", "request.timeout.ms", ANSWER_MS,
            "default.api.timeout.ms", ANSWER_MS));
        Admin admin = Admin.create(given);
        try {
            var found = admin.describeTopics(List.of(topic.name)).allTopicNames().get();
            Uuid id = found.get(topic.name).topicId();
            if (topic.id != null && !topic.id.equals(id)) topic.stop("the topic was deleted and "
                + "created again; delete and create its stream, too, and then the producer");
            topic.id = id;
            topic.lookAt = System.nanoTime() + LOOK_MS * MS;
            if (doubts == topic.settled) return;
            var asked = new HashMap<TopicPartition, OffsetSpec>();
            for (var each : found.get(topic.name).partitions())
                asked.put(new TopicPartition(topic.name, each.partition()), OffsetSpec.latest());
            var ends = new TreeMap<Integer, Long>();
            admin.listOffsets(asked).all().get().forEach((at, end) ->
                ends.put(at.partition(), end.offset()));
            asked.keySet().removeIf(at ->
                ends.get(at.partition()) <= topic.known.getOrDefault("" + at.partition(), 0L));
            asked.replaceAll((at, latest) -> OffsetSpec.maxTimestamp());
            long newest = NEVER;
            for (var each : admin.listOffsets(asked).all().get().values())
                newest = Math.max(newest, each.timestamp());
            settle(topic, ends, newest);
            topic.settled = doubts;
        } catch (ExecutionException error) {
            throw new IOException(error.getCause().getClass().getSimpleName() + ": the topic cannot "
                + "be looked up: " + error.getCause().getMessage());
        } finally {
            admin.close(Duration.ZERO);
        }
    }

    private void settle(Topic topic, Map<Integer, Long> ends, long newest) throws IOException {
        for (String partition : topic.known.keySet()) {
            long noted = topic.known.get(partition);
            if (ends.getOrDefault(Integer.valueOf(partition), 0L) >= noted) continue;
            topic.joined = false;
            throw new IOException("recreated: partition " + partition + " ends below " + noted
                + ", which was noted: the topic was deleted and created again, or lost records; "
                + "delete and create its stream, too");
        }
        synchronized (topic) {
            topic.reach(ends.size());
            ends.forEach((p, end) -> topic.ends[p] = Math.max(topic.ends[p], end));
            topic.newest = Math.max(topic.newest, newest);
        }
    }

    private void note(Topic topic) throws Exception {
        String fields;
        long time, late, arrivals, max;
        synchronized (topic) {
            time = topic.time(System.currentTimeMillis());
            late = topic.late;
            arrivals = topic.arrivals;
            boolean rests = byStamps && topic.inFlight.isEmpty() && arrivals == topic.covered;
            if (topic.stopped || topic.doubts != topic.settled || rests || time == NEVER) return;
            topic.claim(time);
            max = Math.max(topic.largest, topic.newest);
            fields = ",'time':" + time + topic.position()
                + (topic.declares && max != NEVER ? ",'max_time':" + max : "")
                + (late > 0 ? ",'late':{'rows':" + late + ",'least':" + topic.leastLate + "}" : "");
        }
        if (late > 0 && topic.said.add("late")) say(Level.WARNING, topic, late + " records have "
            + "timestamps below what was noted, or the stream's lower, so readers may have closed "
            + "their windows: raise noted.time.delay.ms; if they are historic, take "
            + "noted.time.order=stamps");
        post(topic, fields);
        synchronized (topic) {
            topic.noted = time;
            topic.covered = arrivals;
            topic.late -= late;
            if (topic.late == 0) topic.leastLate = Long.MAX_VALUE;
        }
    }

    /** Posts a note to the first controller that answers; returns the answer, which accepts it. */
    private String post(Topic topic, String fields) throws Exception {
        String note = "{'notes':[{'writer':'" + writer + "','session':'" + session + "'"
            + (topic.tookOver ? "" : ",'takes_over':true,'label':'" + label + "'")
            + (domain == null ? "" : ",'domain':'" + domain + "'") + fields + ",'sequence':";
        String failed = "";
        for (String url : List.copyOf(urls)) {
            sequence = Math.max(sequence + 1, System.currentTimeMillis() * 1000);
            var asked = HttpRequest.newBuilder().timeout(Duration.ofMillis(ANSWER_MS))
                .uri(URI.create(url + "/v1/streams/" + topic.name + "/notes"))
                .header("content-type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString(json(note + sequence + "}]}")));
            if (!token.isEmpty()) asked.header("authorization", "Bearer " + token);
            try {
                var answer = http.send(asked.build(), HttpResponse.BodyHandlers.ofString());
                String body = answer.body();
                String kind = found("'status':'(\\w+)", body, found("'code':'(\\w+)", body, ""));
                if (kind.equals("accepted")) return accepted(topic, body);
                if (answer.statusCode() < 500 && !kind.isEmpty())
                    throw new IllegalStateException(refused(topic, kind, body));
                failed = url + " answers with status " + answer.statusCode() + " " + kind;
            } catch (IOException error) {
                failed = url + ": " + error;
            }
            Collections.rotate(urls, -1);
        }
        throw new IOException("no controller answers: " + failed);
    }

    private String accepted(Topic topic, String answer) {
        topic.tookOver = true;
        synchronized (topic) {
            topic.lower = Math.max(topic.lower, number("'lower':(-?\\d+)", answer, NEVER));
            topic.claim(topic.claimed);
        }
        long since = number("'since':(\\d+)", answer, NEVER);
        if (since != NEVER && topic.said.add("" + since)) say(Level.WARNING, topic, "the watermark "
            + "advances without it since " + Instant.ofEpochMilli(since) + " ("
            + found("'reason':'(\\w+)", answer, "") + "): what it sends below "
            + Instant.ofEpochMilli(topic.lower) + " is late");
        return answer;
    }

    private String refused(Topic topic, String kind, String answer) {
        long last = number("'last':(-?\\d+)", answer, 0);
        synchronized (topic) {
            topic.claim(kind.equals("invalid_time") ? last : topic.noted);
        }
        if (kind.equals("superseded")) sequence = Math.max(sequence, last);
        if (kind.equals("invalid_position")) topic.joined = false;
        if (kind.equals("sealed")) topic.stop("the stream is sealed");
        if (kind.equals("fenced")) topic.stop("another process, " + found("'label':'([^']*)", answer,
            "?") + ", took the name over at " + Instant.ofEpochMilli(number("'since':(\\d+)", answer,
            0)) + "; what this one sends is covered by no note: end it, or give each of them a "
            + "noted.time.writer of its own");
        topic.declares &= !found("'field':'(\\w+)", answer, "").equals("max_time");
        return kind + ": " + found(".*'detail':'((?:[^'\\\\]|\\\\.)*)", answer, "the note is refused");
    }

    private static String json(String text) {
        return text.replace('\'', '"');
    }

    private static Pattern pattern(String fields) {
        return Pattern.compile(json(fields).replace("\":", "\":\\s*"), Pattern.DOTALL);
    }

    private static String found(String pattern, String text, String otherwise) {
        Matcher matcher = pattern(pattern).matcher(text);
        return matcher.find() ? matcher.group(1) : otherwise;
    }

    private static long number(String pattern, String text, long otherwise) {
        return Long.parseLong(found(pattern, text, "" + otherwise));
    }
}
