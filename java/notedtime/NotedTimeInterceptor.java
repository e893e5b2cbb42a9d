package notedtime;

import java.io.*;
import java.lang.System.Logger.Level;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
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
    private static final System.Logger LOG = System.getLogger("noted_time.interceptor");
    private static final long NEVER = Long.MIN_VALUE, MS = 1_000_000;
    private static final int CLOSE_MS = 10_000, ANSWER_MS = 5_000, LOOKS = 60, SET_BACK_MS = 10_000;
    private static final int ANSWER_BYTES = 65_536, KINDS = 20, HOUR_MS = 3_600_000;
    private static final int LINES_A_MINUTE = 20, LINE = 1_000;
    private static final Set<String> SETTINGS = new TreeSet<>(Set.of("url", "writer", "token",
        "delay.ms", "order", "period.ms", "timeout.ms", "domain", "stream", "topics",
        "on.failure"));
    private static final String NUMBER = "(-?+\\d++)", WORD = "'(\\w{1,64}+)'";
    private static final String ID = "'([\\w-]{1,64}+)'";
    private static final String OBSERVE = "have `noted-time observe kafka` note for the topic";

    private final Map<String, Topic> topics = new ConcurrentHashMap<>();
    /** Of a thread: the topic of the last record sent, and its timestamp or why it failed. */
    private final ThreadLocal<Map.Entry<String, Object>> last = new ThreadLocal<>();
    private final String session = UUID.randomUUID().toString();
    private Map<String, ?> config;
    private List<String> urls;
    private HttpClient http;
    private String client, writer, label, token, domain, stream;
    private Pattern wanted;
    private boolean byStamps, stops;
    private long delay, period, timeout, longest, sequence, closeBy, minute, lines;
    private Thread thread;
    private volatile boolean on;

    /** What is in flight to a topic, and how far it is written; the lock is its own. */
    private final class Topic {
        final String name, stream;
        final TreeMap<Long, long[]> inFlight = new TreeMap<>();  // how many, and when the last was
        long[] latest = {0, 0};
        long lost, dropped = NEVER;  // in flight though they failed, and the largest taken out
        long latestStamp, largest = NEVER, claimed = NEVER, noted = NEVER, lower = NEVER;
        long newest = NEVER;  // in the topic when it was looked up, of any writer
        long lateBelow = Long.MAX_VALUE, late, leastLate = Long.MAX_VALUE, mostLate = NEVER;
        long[] ends = {};
        volatile boolean stopped;
        volatile int doubts = 1;
        final Set<String> said = ConcurrentHashMap.newKeySet();
        // what follows is the thread's alone
        final Set<String> troubles = new HashSet<>();
        Uuid id;
        String fields = "", former = "";  // the sessions from which it took the name over
        boolean tookOver, joined, declares = true;
        int settled, failures;
        long due = System.nanoTime(), lookAt = due;

        Topic(String name) {
            this.name = name;
            stream = NotedTimeInterceptor.this.stream.replace("{topic}", name);
            stopped = !wanted.matcher(name).matches();
        }

        void sent(long stamp) {
            if (stamp != latestStamp || latest[0] == 0) {  // most share the former's millisecond
                latest = inFlight.computeIfAbsent(stamp, any -> new long[2]);
                latestStamp = stamp;
            }
            latest[0]++;
            latest[1] = System.nanoTime();
            if (stamp > largest) largest = stamp;
            countIfLate(stamp);
        }

        void countIfLate(long stamp) {
            if (stamp >= lateBelow) return;
            late++;
            leastLate = Math.min(leastLate, stamp);
            mostLate = Math.max(mostLate, stamp);
        }

        /** Counts late records as reported, or as in time after all. */
        void reported(long records) {
            late -= records;
            if (late > 0) return;
            leastLate = Long.MAX_VALUE;
            mostLate = NEVER;
        }

        /** Counts a record as written; returns false if none of its timestamp was sent. */
        boolean arrived(int partition, long offset, long stamp) {
            if (offset < 0) doubts++;  // Kafka does not say it if a retry met the first attempt
            else reach(partition, offset + 1);
            if (landed(stamp)) return true;
            if (stamp > dropped) return false;
            lost++;  // it was taken out in place of another one
            countIfLate(stamp);
            return true;
        }

        boolean landed(long stamp) {
            long[] records = inFlight.get(stamp);
            if (records != null && --records[0] == 0) inFlight.remove(stamp);
            return records != null;
        }

        /** Takes out what is in flight for longer than a delivery takes, if some have failed. */
        synchronized void dropLost() {
            long now = System.nanoTime();
            for (var all = inFlight.entrySet().iterator(); lost > 0 && all.hasNext(); ) {
                var each = all.next();
                long[] records = each.getValue();
                if (now - records[1] < longest * MS) continue;
                dropped = Math.max(dropped, each.getKey());
                lost = Math.max(0, lost - records[0]);
                records[0] = 0;
                all.remove();
                doubts++;  // it may have been written, if only the answer was lost
            }
        }

        void reach(int partition, long end) {
            if (partition >= ends.length) ends = Arrays.copyOf(ends, partition + 1);
            if (end > ends[partition]) ends[partition] = end;
        }

        /** Returns the time below which all is written, NEVER if none is known. */
        long time(long clock) {
            long time = byStamps ? largest : clock;
            if (time != NEVER) time -= delay;
            if (!inFlight.isEmpty()) time = Math.min(time, inFlight.firstKey());
            return Math.max(time, claimed);
        }

        void claim(long time) { lateBelow = Math.max(claimed = time, lower); }

        synchronized void stop(String why) {
            if (!stopped) say(Level.ERROR, this, "no more is noted: " + why);
            stopped = true;
            inFlight.clear();
        }

        synchronized boolean isDone() { return !stopped && inFlight.isEmpty(); }

        String position() {
            var text = new StringJoiner(",", ",'position':{", "}");
            for (int each = 0; each < ends.length; each++) text.add("'" + each + "':" + ends[each]);
            return text.toString();
        }
    }

    @Override public ProducerRecord<K, V> onSend(ProducerRecord<K, V> record) {
        last.set(null);
        if (!on || record == null) return record;
        Topic topic = topics.get(record.topic());
        if (topic == null) {
            topic = topics.computeIfAbsent(record.topic(), Topic::new);
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
                + "message.timestamp.type=LogAppendTime, " + OBSERVE + " (broker-time); if "
                + "another interceptor changes timestamps, list it before this one");
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
        if (stops || !isKnown && longest > HOUR_MS) {
            topic.stop("a record was not delivered, and may be sent again (" + error
                + "); create the producer again");
            return;
        }
        if (!isKnown) topic.lost++;
        else if (topic.landed((Long) found))
            topic.dropped = Math.max(topic.dropped, (Long) found);
        if (topic.said.add("failed " + isKnown)) say(Level.WARNING, topic, "a record was not "
            + "delivered (" + error + "): time advances without it" + (isKnown ? "" : ", but only "
            + "after " + longest + " ms, as Kafka does not say which one it was")
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
            thread.join(CLOSE_MS + ANSWER_MS);
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
    }

    @Override public void configure(Map<String, ?> given) {
        config = given;
        client = text("client.id", "").replaceAll("[^A-Za-z0-9._-]", "-");
        try {
            read();
            thread = new Thread(this::run, "noted-time " + client);
            thread.setDaemon(true);
            on = true;
            thread.start();
        } catch (RuntimeException | LinkageError error) {
            LOG.log(Level.ERROR, "noted time: nothing is noted by producer " + client + ": "
                + error.getMessage());
        }
    }

    private void read() {
        for (String name : config.keySet()) refuse(name.startsWith("noted.time.") && !SETTINGS
            .contains(name.substring(11)), name + " is none of its settings " + SETTINGS);
        refuse(!text("transactional.id", "").isEmpty(), "transactional.id is set, and a record is "
            + "acknowledged before its transaction is committed; " + OBSERVE);
        refuse(text("acks", "").equals("0"), "acks=0 reports no offsets; leave it out, or "
            + OBSERVE);
        urls = new ArrayList<>(List.of(setting("url", "", "(https?://[^@\\s,]+(?<!/v1)[\\s,]*)+",
            "the URL of a controller, such as http://127.0.0.1:7464").split("/?[\\s,]+|/$")));
        delay = Long.parseLong(setting("delay.ms", "0", "\\d{1,15}", "a number of ms"));
        period = Long.parseLong(setting("period.ms", "1000", "[1-9]\\d{1,8}", "at least 10 ms"));
        timeout = Long.parseLong(setting("timeout.ms", "0", "\\d{1,15}", "a number of ms"));
        refuse(timeout > 0 && timeout <= period, "noted.time.timeout.ms is not above period.ms");
        byStamps = setting("order", "clock", "clock|stamps", "clock or stamps").equals("stamps");
        String name = "(?!\\.\\.?$)[A-Za-z0-9._-]{0,249}", what = "a name of up to 249 letters, "
            + "digits, '.', '_' and '-'", shown = System.getenv("NOTED_TIME_TOKEN");
        domain = setting("domain", "", name, what);
        stream = setting("stream", "{topic}", "(?!\\.\\.?$)([A-Za-z0-9._-]|\\{topic}){1,249}",
            what + ", in which {topic} stands for the topic's");
        stops = setting("on.failure", "continue", "continue|stop", "continue or stop")
            .equals("stop");
        longest = milliseconds("delivery.timeout.ms", 120_000)
            + milliseconds("max.block.ms", 60_000) + ANSWER_MS;
        try {
            wanted = Pattern.compile(text("noted.time.topics", ".*"));
        } catch (PatternSyntaxException error) {
            refuse(true, "noted.time.topics=" + error.getPattern() + " is not a regular "
                + "expression: " + error.getDescription());
        }
        writer = setting("writer", "", name, what);
        token = setting("token", shown == null ? "" : shown, "[!-~]*", "a token");
    }

    private static void refuse(boolean wrong, String why) {
        if (wrong) throw new IllegalArgumentException(why);
    }

    private String text(String name, String otherwise) {
        return config.get(name) == null ? otherwise : config.get(name).toString();
    }

    /** Returns a setting of Kafka's; what is longer than an hour counts as that. */
    private long milliseconds(String name, long otherwise) {
        return Math.min(Long.parseLong(text(name, "" + otherwise).trim()), HOUR_MS);
    }

    /** Returns a setting of the given form, in which {client.id} stands for the producer's. */
    private String setting(String name, String otherwise, String form, String what) {
        String text = text("noted.time." + name, otherwise).trim().replace("{client.id}", client);
        boolean isSecret = name.equals("token") || text.contains("@");
        refuse(!text.matches(form), "noted.time." + name + (isSecret ? "" : "=" + text) + " is not "
            + what);
        return text;
    }

    private void run() {
        try {
            begin();
            work();
        } catch (Throwable error) {
            on = false;
            LOG.log(Level.ERROR, "noted time: nothing is noted by producer " + client + ": "
                + error);
        }
    }

    private void begin() {
        http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)  // without upgrades
            .connectTimeout(Duration.ofMillis(ANSWER_MS)).build();
        String[] process = (ManagementFactory.getRuntimeMXBean().getName() + "@").split("@", 3);
        label = (process[1] + ":" + process[0]).replaceAll("[^A-Za-z0-9._:-]", "-");
        String name = client + "-" + label.replace(':', '-') + "-" + session.substring(0, 4);
        if (writer.isEmpty()) writer = name.substring(Math.max(0, name.length() - 249));
    }

    private void work() {
        while (on) {
            long next = System.nanoTime() + period * MS;
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
        topic.due = System.nanoTime() + period * MS;
        try {
            if (topic.stopped) return true;
            topic.dropLost();
            if (!topic.joined || topic.doubts != topic.settled || System.nanoTime() > topic.lookAt)
                look(topic);
            note(topic);
            if (!on && topic.isDone()) post(topic, ",'state':'idle'" + topic.position());
            if (topic.failures > 0) say(Level.INFO, topic, "notes are accepted again");
            topic.troubles.clear();
            topic.failures = 0;
        } catch (Throwable error) {  // an Error, too: no fault of one note ends the thread
            if (error instanceof LinkageError) topic.stop("Kafka's client has to be 3.1 or newer ("
                + error + ")");
            if (topic.stopped) return true;
            String why = error instanceof IOException ? error.getMessage() : error.toString();
            if (topic.troubles.size() < KINDS && topic.troubles.add(why.split(":")[0]))
                say(Level.WARNING, topic, "retrying: " + why);
            double backoff = Math.min(5_000, 100L << Math.min(topic.failures++, 6));
            topic.due = System.nanoTime() + (long) (backoff * (0.5 + Math.random() / 2) * MS);
        }
        return topic.failures == 0;
    }

    /** Logs a line, but of warnings and what follows them only some a minute. */
    private synchronized void say(Level level, Topic topic, String what) {
        if (level != Level.ERROR) {
            long now = System.nanoTime() / (60_000 * MS);
            lines = now == minute ? lines + 1 : 1;
            minute = now;
            if (lines > LINES_A_MINUTE) return;
            if (lines == LINES_A_MINUTE) what += " (no more warnings are logged in this minute)";
        }
        LOG.log(level, "noted time: writer " + writer + " of " + topic.name + ": "
            + what.substring(0, Math.min(what.length(), LINE)).replaceAll("\\p{Cntrl}", " "));
    }

    /** Takes the name over: from then on no former process notes under it. */
    private void join(Topic topic) throws Exception {
        String log = topic.id.equals(Uuid.ZERO_UUID) ? "" : ",'log':'" + topic.id + "'";  // no id
        String answer = post(topic, log + (timeout > 0 ? ",'timeout_ms':" + timeout : "")
            + (domain.isEmpty() ? "" : ",'domains':['" + domain + "']"));
        String time = "'" + (domain.isEmpty() ? "default" : domain) + "':" + NUMBER;
        long known = number(time, found("'times':\\{([^}]*+)", answer, ""), NEVER);
        synchronized (topic) {
            topic.claim(topic.noted = Math.max(topic.claimed, known));
            if (topic.leastLate >= topic.lateBelow) topic.reported(topic.late);
            topic.mostLate = Math.min(topic.mostLate, topic.lateBelow - 1);
            topic.doubts++;
        }
        topic.joined = true;
    }

    /** Joins, and looks up where the topic ends, if in doubt, and whether it is still the same. */
    private void look(Topic topic) throws Exception {
        Map<String, Object> given = new HashMap<>(config);
        given.keySet().retainAll(AdminClientConfig.configNames());
        given.remove("metric.reporters");
        given.putAll(Map.of("client.id", client + "-noted-time", "request.timeout.ms", ANSWER_MS,
            "default.api.timeout.ms", ANSWER_MS));
        topic.lookAt = System.nanoTime() + LOOKS * topics.size() * period * MS;
        Admin admin = Admin.create(given);
        try {
            TopicDescription now = described(admin, topic);
            if (!topic.joined && !topic.stopped) {
                join(topic);
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

    private void note(Topic topic) throws Exception {
        String fields;
        long time, late;
        synchronized (topic) {
            time = topic.time(System.currentTimeMillis());
            late = topic.late;
            long most = topic.declares ? Math.max(topic.largest, topic.newest) : NEVER;
            fields = ",'time':" + time + (most > NEVER ? ",'max_time':" + most : "")
                + topic.position()
                + (late > 0 ? ",'late':{'rows':" + late + ",'least':" + topic.leastLate
                    + ",'most':" + topic.mostLate + "}" : "");
            boolean rests = byStamps && topic.inFlight.isEmpty() && fields.equals(topic.fields);
            if (topic.stopped || topic.doubts != topic.settled || rests || time == NEVER) return;
            topic.claim(time);
        }
        if (late > 0 && topic.said.add("late")) say(Level.WARNING, topic, late + " records have "
            + "timestamps below what was noted, or the stream's lower: readers may have closed "
            + "their windows. Raise noted.time.delay.ms, or take noted.time.order=stamps");
        post(topic, fields);
        topic.fields = fields;
        synchronized (topic) {
            topic.noted = time;
            topic.reported(late);
        }
    }

    /** Posts a note to the first controller that answers; returns the answer, which accepts it. */
    private String post(Topic topic, String fields) throws Exception {
        String failed = "";
        for (String url : List.copyOf(urls)) {
            sequence = Math.max(sequence + 1, System.currentTimeMillis() * 1000);
            String note = "{'notes':[{'writer':'" + writer + "','session':'" + session
                + "','sequence':" + sequence
                + (domain.isEmpty() ? "" : ",'domain':'" + domain + "'")
                + (topic.tookOver ? "" : (topic.former.isEmpty() ? ",'takes_over':true"
                : ",'took_over':[" + topic.former + "]") + ",'label':'" + label + "'") + fields;
            var asked = HttpRequest.newBuilder(URI.create(url + "/v1/streams/" + topic.stream
                + "/notes")).timeout(Duration.ofMillis(ANSWER_MS))
                .header("content-type", "application/json").POST(HttpRequest.BodyPublishers
                .ofString((note + "}]}").replace('\'', '"')));
            if (!token.isEmpty()) asked.header("authorization", "Bearer " + token);
            try {
                var collected = new Answer();  // now: its time begins before the connection does
                var answer = http.send(asked.build(), any -> collected);
                String type = answer.headers().firstValue("content-type").orElse("no type");
                String body = type.split(";")[0].endsWith("json") ? answer.body() : "";
                String status = found("'status':" + WORD, body, found("'code':" + WORD, body, ""));
                if (answer.statusCode() == 200 && status.equals("accepted"))
                    return accepted(topic, body);
                if (answer.statusCode() < 500 && !status.isEmpty()) {
                    failed = refused(topic, status, body);
                    break;
                }
                failed = "no controller answers: status " + answer.statusCode() + " of " + url
                    + ", " + type.substring(0, Math.min(type.length(), 64));
            } catch (IOException error) {
                failed = "no controller answers: " + url + ": " + (error.getCause() instanceof
                    TimeoutException ? "no whole answer in " + ANSWER_MS + " ms" : error);
            }
            Collections.rotate(urls, -1);
        }
        throw new IOException(failed);
    }

    private String accepted(Topic topic, String answer) {
        long lower = number("'lower':" + NUMBER, answer, NEVER);
        topic.tookOver = true;
        topic.former = found("'took_over':\\[([\\w.',\\s-]{1,1000}+)]", answer, topic.former);
        synchronized (topic) {
            topic.lower = Math.max(topic.lower, lower);
            topic.claim(topic.claimed);
        }
        long since = number("'since':" + NUMBER, answer, 0);
        if (since > 0 && topic.said.add("" + since)) say(Level.WARNING, topic, "the watermark "
            + "advances without it since " + Instant.ofEpochMilli(since) + " ("
            + found("'reason':" + WORD, answer, "") + "): what it sends below its lower is late");
        return answer;
    }

    /** Returns a sentence of why a note was refused, after which the next one may be accepted. */
    private String refused(Topic topic, String status, String answer) {
        long last = number("'last':" + NUMBER, answer, 0);
        long since = number("'since':" + NUMBER, answer, 0);
        synchronized (topic) {
            topic.claim(status.equals("invalid_time") ? last : topic.noted);
        }
        topic.declares &= !found("'field':" + WORD, answer, "").equals("max_time");
        if (status.equals("superseded")) sequence = Math.max(sequence, last);
        if (status.equals("sealed")) topic.stop("the stream is sealed");
        if (status.equals("another_log")) topic.stop("the stream's positions are of log "
            + found("'known':" + ID, answer, "?") + ", and this topic is log " + found("'given':"
            + ID, answer, "?") + ": if it was deleted and created again, delete and create its "
            + "stream, too, or else give it a noted.time.stream of its own, and then create the "
            + "producer again");
        String holder = found("'session':('[\\w.-]{1,64}+')", answer, "?");
        if (status.equals("fenced") && topic.tookOver && topic.former.contains(holder)) {
            topic.tookOver = topic.joined = false;
            return "fenced by a process from which it had taken the name, so the controller's "
                + "database is that of a backup: it takes the name over once more";
        }
        if (status.equals("fenced")) topic.stop("another process, "
            + found("'label':'([^']{0,128}+)", answer, "?") + ", took the name over at "
            + Instant.ofEpochMilli(since) + ", and no note covers what this one sends: end it, or "
            + "give it a noted.time.writer of its own");
        if (!status.equals("invalid_position"))
            return status + ": " + found("'detail':'((?:[^'\\\\]|\\\\.){0,500}+)",
                answer.substring(Math.max(0, answer.lastIndexOf("\"detail\""))), "refused");
        topic.joined = false;
        return status + ": the topic ends below what was noted: it was deleted and created again, "
            + "or lost records: delete and create its stream, too";
    }

    /** Collects an answer as text, of 64 kB at most and within the time for one; else it is cut. */
    private static final class Answer implements HttpResponse.BodySubscriber<String> {
        private final CompletableFuture<String> text = new CompletableFuture<>();
        private final ByteArrayOutputStream read = new ByteArrayOutputStream();

        Answer() { text.orTimeout(ANSWER_MS, TimeUnit.MILLISECONDS); }

        @Override public CompletionStage<String> getBody() { return text; }

        @Override public void onSubscribe(Flow.Subscription body) {
            text.whenComplete((any, error) -> { if (error != null) body.cancel(); });
            body.request(Long.MAX_VALUE);
        }

        @Override public void onNext(List<ByteBuffer> pieces) {
            for (ByteBuffer piece : pieces) {
                if (read.size() + piece.remaining() > ANSWER_BYTES)
                    text.completeExceptionally(new IOException("its answer is over 64 kB"));
                if (text.isDone()) return;
                byte[] bytes = new byte[piece.remaining()];
                piece.get(bytes);
                read.writeBytes(bytes);
            }
        }

        @Override public void onError(Throwable error) { text.completeExceptionally(error); }

        @Override public void onComplete() { text.complete(read.toString(StandardCharsets.UTF_8)); }
    }

    /** Returns what a pattern finds, which never goes back: an answer may be of any text. */
    private static String found(String pattern, String text, String otherwise) {
        String regex = pattern.replace("':", "\":\\s*+").replace('\'', '"');
        Matcher matcher = Pattern.compile(regex, Pattern.DOTALL).matcher(text);
        return matcher.find() ? matcher.group(1) : otherwise;
    }

    private static long number(String pattern, String text, long otherwise) {
        return Long.parseLong(found(pattern, text, "" + otherwise));
    }
}
