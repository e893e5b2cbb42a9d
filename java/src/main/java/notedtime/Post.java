package notedtime;

import static notedtime.Answer.ID;
import static notedtime.Answer.NUMBER;
import static notedtime.Answer.WORD;
import static notedtime.Answer.found;
import static notedtime.Answer.number;
import static notedtime.Topic.NEVER;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.Uuid;

/** Posts the notes of one writer, and handles the answers. Only the thread uses it. */
final class Post {
    private final Settings settings;
    private final List<String> urls;
    private final HttpClient http;
    private final String label, session = UUID.randomUUID().toString();
    private final String contact;
    private boolean omitsContact;  // an older controller refuses it
    private long sequence;
    long retryAfter;  // of the last answer, in ms

    /** Gives the writer a name if the settings do not. Does not connect yet. */
    Post(Settings settings) {
        this.settings = settings;
        contact = settings.contact.isEmpty() ? "" : ",'contact':'" + escape(settings.contact) + "'";
        urls = new ArrayList<>(settings.urls);
        http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)  // without upgrades
            .connectTimeout(Duration.ofMillis(Settings.ANSWER_MS)).build();
        String[] process = (ManagementFactory.getRuntimeMXBean().getName() + "@").split("@", 3);
        label = (process[1] + ":" + process[0]).replaceAll("[^A-Za-z0-9._:-]", "-");
        String name = settings.client + "-" + label.replace(':', '-') + "-"
            + session.substring(0, 4);
        if (settings.writer.isEmpty())
            settings.writer = name.substring(Math.max(0, name.length() - 249));
    }

    /** Returns the text of a JSON string, in which each character is escaped. */
    private static String escape(String text) {
        var escaped = new StringBuilder();
        for (char each : text.toCharArray()) escaped.append(String.format("\\u%04x", (int) each));
        return escaped.toString();
    }

    /** Takes over the writer's name. No earlier process can note under it afterwards. */
    void join(Topic topic) throws Exception {
        String log = topic.id.equals(Uuid.ZERO_UUID) ? "" : ",'log':'" + topic.id + "'";  // no id
        String domain = settings.domain;
        String answer = post(topic, log
            + (settings.timeout > 0 ? ",'timeout_ms':" + settings.timeout : "")
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

    void note(Topic topic) throws Exception {
        String fields;
        long time, late;
        synchronized (topic) {
            time = topic.time(System.currentTimeMillis());
            late = topic.late;
            long most = topic.declares ? Math.max(topic.largest, topic.newest) : NEVER;
            fields = ",'time':" + time + (most > NEVER ? ",'max_time':" + most : "")
                + topic.position()
                + (late > 0 ? ",'late_rows':{'rows':" + late + ",'min_time':" + topic.leastLate
                    + ",'max_time':" + topic.mostLate + "}" : "");
            boolean rests = settings.byStamps && topic.inFlight.isEmpty()
                && fields.equals(topic.fields);
            if (topic.stopped || topic.doubts != topic.settled || rests || time == NEVER) return;
            topic.claim(time);
        }
        if (late > 0 && topic.said.add("late")) topic.say(Level.WARNING, late + " records have "
            + "timestamps below the noted time or the stream's lower: readers may have closed "
            + "their windows. Raise noted.time.delay.ms, or set noted.time.order=stamps");
        post(topic, fields);
        topic.fields = fields;
        synchronized (topic) {
            topic.noted = time;
            topic.reported(late);
        }
    }

    void idle(Topic topic) throws Exception {
        post(topic, ",'state':'idle'" + topic.position());
    }

    /** Posts a note to the first controller that answers. Returns the answer if it accepts. */
    String post(Topic topic, String fields) throws Exception {
        String failed = "";
        retryAfter = 0;
        for (String url : List.copyOf(urls)) {
            sequence = Math.max(sequence + 1, System.currentTimeMillis() * 1000);
            String note = "{'notes':[{'writer':'" + settings.writer + "','session':'" + session
                + "','sequence':" + sequence
                + (settings.domain.isEmpty() ? "" : ",'domain':'" + settings.domain + "'")
                + (topic.tookOver ? "" : (topic.former.isEmpty() ? ",'takes_over':true"
                : ",'took_over':[" + topic.former + "]") + ",'label':'" + label + "'")
                + (omitsContact ? "" : contact) + fields;
            var asked = HttpRequest.newBuilder(URI.create(url + "/v1/streams/" + topic.stream
                + "/notes")).timeout(Duration.ofMillis(Settings.ANSWER_MS))
                .header("content-type", "application/json").POST(HttpRequest.BodyPublishers
                .ofString((note + "}]}").replace('\'', '"')));
            if (!settings.token.isEmpty())
                asked.header("authorization", "Bearer " + settings.token);
            try {
                var collected = new Answer();  // now: its limit includes connecting
                var answer = http.send(asked.build(), any -> collected);
                String type = answer.headers().firstValue("content-type").orElse("no type");
                String body = type.split(";")[0].endsWith("json") ? answer.body() : "";
                String status = found("'status':" + WORD, body, found("'code':" + WORD, body, ""));
                if (answer.statusCode() == 200 && status.equals("accepted"))
                    return accepted(topic, body);
                boolean isFinal = answer.statusCode() < 500
                    && !List.of(408, 425, 429).contains(answer.statusCode());
                topic.refused = List.of(401, 403, 404).contains(answer.statusCode());
                if (isFinal && refusesContact(topic, body)) return post(topic, fields);
                if (isFinal && !status.isEmpty()) {
                    failed = refused(topic, status, body);
                    break;
                }
                String after = answer.headers().firstValue("retry-after").orElse("");
                retryAfter = after.matches("\\d{1,9}") ? 1_000 * Math.min(300,
                    Long.parseLong(after)) : 0;
                failed = "no controller answers: status " + answer.statusCode() + " of " + url
                    + ", " + type.substring(0, Math.min(type.length(), 64));
            } catch (IOException error) {
                failed = "no controller answers: " + url + ": " + (error.getCause() instanceof
                    TimeoutException ? "no whole answer in " + Settings.ANSWER_MS + " ms" : error);
            }
            omitsContact = false;  // the next controller may be newer
            Collections.rotate(urls, -1);
        }
        throw new IOException(failed);
    }

    /** Returns whether an older controller refuses the contact. Later notes do without it. */
    private boolean refusesContact(Topic topic, String answer) {
        boolean isUnknown = answer.contains("contact") && answer.contains("unknown field");
        if (omitsContact || contact.isEmpty() || !isUnknown) return false;
        omitsContact = true;
        if (topic.said.add("contact")) topic.say(Level.WARNING, "the controller refuses "
            + "noted.time.contact, so notes are sent without it: upgrade the controller");
        return true;
    }

    private String accepted(Topic topic, String answer) {
        long lower = number("'lower':" + NUMBER, answer, NEVER);
        topic.tookOver = true;
        topic.former = found("'took_over':\\[([\\w.',\\s-]{1,1000}+)]", answer, topic.former);
        synchronized (topic) {
            topic.lower = Math.max(topic.lower, lower);
            topic.claim(topic.claimed);
        }
        long since = number("'excluded_at':" + NUMBER, answer, 0);
        if (since > 0 && topic.said.add("" + since)) topic.say(Level.WARNING, "the watermark "
            + "advances without it since " + Instant.ofEpochMilli(since) + " ("
            + found("'reason':" + WORD, answer, "") + "): records below the lower are late");
        return answer;
    }

    /** Handles a refusal, and returns the reason. A later note may be accepted. */
    private String refused(Topic topic, String status, String answer) {
        long last = number("'last':" + NUMBER, answer, 0);
        long began = number("'began_at':" + NUMBER, answer, 0);
        synchronized (topic) {
            topic.claim(status.equals("invalid_time") ? last : topic.noted);
        }
        topic.declares &= !found("'field':" + WORD, answer, "").equals("max_time");
        if (status.equals("superseded")) sequence = Math.max(sequence, last);
        if (status.equals("sealed")) topic.stop("the stream is sealed");
        if (status.equals("another_log")) topic.stop("the stream's positions are of log "
            + found("'known':" + ID, answer, "?") + ", and this topic is log " + found("'given':"
            + ID, answer, "?") + ": if the topic was deleted and created again, delete and create "
            + "its stream, too; otherwise set another noted.time.stream. Then create the producer "
            + "again");
        String holder = found("'session':('[\\w.-]{1,64}+')", answer, "?");
        if (status.equals("fenced") && topic.tookOver && topic.former.contains(holder)) {
            topic.tookOver = topic.joined = false;
            return "fenced by a process from which it had taken over the name, so the controller's "
                + "database is a backup: it takes the name over again";
        }
        String by = found("'label':'([^']{0,128}+)", answer, "?");
        boolean isOwn = by.equals(label);
        if (status.equals("fenced")) topic.stop((isOwn ? "another producer of this process"
            : "another process, " + by + ",") + " took the name over at "
            + Instant.ofEpochMilli(began) + ", and no note covers the records of this one: "
            + (isOwn ? "give each producer a noted.time.writer of its own"
            : "end it, or set another noted.time.writer"));
        if (!status.equals("invalid_position"))
            return status + ": " + found("'detail':'((?:[^'\\\\]|\\\\.){0,500}+)",
                answer.substring(Math.max(0, answer.lastIndexOf("\"detail\""))), "refused");
        topic.joined = false;
        return status + ": the topic ends below what was noted: it was deleted and created again, "
            + "or lost records: delete and create its stream, too";
    }
}
