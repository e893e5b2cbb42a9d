package notedtime;

import static notedtime.Answer.ID;
import static notedtime.Answer.NUMBER;
import static notedtime.Answer.WORD;
import static notedtime.Answer.find;
import static notedtime.Answer.findNumber;
import static notedtime.Topic.NEVER;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.Uuid;

/**
 * Posts the notes of one writer, and handles the answers. Only the thread uses it.
 *
 * <p>JSON is written with ' in place of ", which is replaced at last.
 */
final class Post {
    private static final Duration TIMEOUT = Duration.ofMillis(Settings.ANSWER_MS);
    private static final Set<Integer> BUSY_STATUSES = Set.of(408, 425, 429);
    /** With these, a person must act. */
    private static final Set<Integer> REFUSED_STATUSES = Set.of(401, 403, 404);
    private static final int LONGEST_RETRY_AFTER_S = 300;
    private static final int LONGEST_NAME = 249;

    private final Settings settings;
    private final List<String> urls;  // the next request goes to the first
    private final HttpClient http;
    private final String label;
    private final String session = UUID.randomUUID().toString();
    private final String contactField;
    private boolean omitsContact;  // an older controller refuses it
    private long sequence;
    long retryAfterMs;  // of the last answer

    /** Gives the writer a name if the settings do not. Does not connect yet. */
    Post(Settings settings) {
        this.settings = settings;
        urls = new ArrayList<>(settings.urls);
        contactField = settings.contact.isEmpty()
            ? "" : ",'contact':'" + escape(settings.contact) + "'";
        http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1)  // without upgrades
            .connectTimeout(TIMEOUT).build();
        // usually the id of the process and the host
        String[] process = (ManagementFactory.getRuntimeMXBean().getName() + "@").split("@", 3);
        label = (process[1] + ":" + process[0]).replaceAll("[^A-Za-z0-9._:-]", "-");
        if (settings.writer.isEmpty()) settings.writer = nameWriter();
    }

    private String nameWriter() {
        String name = settings.client + "-" + label.replace(':', '-') + "-"
            + session.substring(0, 4);
        return name.substring(Math.max(0, name.length() - LONGEST_NAME));
    }

    /** Returns the text of a JSON string, in which each character is escaped. */
    private static String escape(String text) {
        var escapedText = new StringBuilder();
        for (char character : text.toCharArray())
            escapedText.append(String.format("\\u%04x", (int) character));
        return escapedText.toString();
    }

    /** Takes over the writer's name. No earlier process can note under it afterwards. */
    void join(Topic topic) throws Exception {
        String answer = post(topic, buildTerms(topic));
        String domain = settings.domain.isEmpty() ? "default" : settings.domain;
        String knownTimes = find("'times':\\{([^}]*+)", answer, "");
        long knownTime = findNumber("'" + domain + "':" + NUMBER, knownTimes, NEVER);
        synchronized (topic) {
            topic.notedTime = Math.max(topic.claimedTime, knownTime);
            topic.claim(topic.notedTime);
            if (topic.leastLate >= topic.lateBelow) topic.subtractLate(topic.lateCount);
            topic.mostLate = Math.min(topic.mostLate, topic.lateBelow - 1);
            topic.doubts++;
        }
        topic.isJoined = true;
    }

    private String buildTerms(Topic topic) {
        String fields = "";
        boolean hasId = !topic.id.equals(Uuid.ZERO_UUID);
        if (hasId) fields += ",'log':'" + topic.id + "'";
        if (settings.timeoutMs > 0) fields += ",'timeout_ms':" + settings.timeoutMs;
        if (!settings.domain.isEmpty()) fields += ",'domains':['" + settings.domain + "']";
        return fields;
    }

    /** Notes the topic's time, if it is known and the note says something new. */
    void note(Topic topic) throws Exception {
        String fields;
        long time;
        long lateCount;
        synchronized (topic) {
            time = topic.findTime(System.currentTimeMillis());
            lateCount = topic.lateCount;
            fields = buildFields(topic, time);
            boolean hasDoubts = topic.doubts != topic.settledDoubts;
            boolean isRepetition = settings.ordersByStamps && topic.inFlight.isEmpty()
                && fields.equals(topic.lastFields);
            if (topic.isStopped || hasDoubts || isRepetition || time == NEVER) return;
            topic.claim(time);
        }
        if (lateCount > 0 && topic.loggedKinds.add("late")) topic.say(Level.WARNING, lateCount
            + " records have timestamps below the noted time or the stream's lower: readers may "
            + "have closed their windows. Raise noted.time.delay.ms, or set "
            + "noted.time.order=stamps");
        post(topic, fields);
        topic.lastFields = fields;
        synchronized (topic) {
            topic.notedTime = time;
            topic.subtractLate(lateCount);
        }
    }

    /** Returns the fields of a note. The topic is locked. */
    private static String buildFields(Topic topic, long time) {
        String fields = ",'time':" + time;
        long largestStamp = Math.max(topic.largestSent, topic.newestInTopic);
        if (topic.declaresMaxTime && largestStamp > NEVER) fields += ",'max_time':" + largestStamp;
        fields += topic.buildPosition();
        if (topic.lateCount > 0) fields += ",'late_rows':{'rows':" + topic.lateCount
            + ",'min_time':" + topic.leastLate + ",'max_time':" + topic.mostLate + "}";
        return fields;
    }

    void idle(Topic topic) throws Exception {
        post(topic, ",'state':'idle'" + topic.buildPosition());
    }

    /** Posts a note to the first controller that answers. Returns the answer if it accepts. */
    String post(Topic topic, String fields) throws Exception {
        String failure = "";
        retryAfterMs = 0;
        for (String url : List.copyOf(urls)) {
            sequence = Math.max(sequence + 1, System.currentTimeMillis() * 1000);
            HttpRequest request = buildRequest(url, topic, fields);
            try {
                var text = new Answer();  // now: its limit includes connecting
                HttpResponse<String> answer = http.send(request, info -> text);
                int statusCode = answer.statusCode();
                String type = answer.headers().firstValue("content-type").orElse("no type");
                boolean isJson = type.split(";")[0].endsWith("json");
                String body = isJson ? answer.body() : "";
                String code = find("'code':" + WORD, body, "");
                String status = find("'status':" + WORD, body, code);
                if (statusCode == 200 && status.equals("accepted")) return accept(topic, body);
                topic.isRefused = REFUSED_STATUSES.contains(statusCode);
                boolean isFinal = statusCode < 500 && !BUSY_STATUSES.contains(statusCode);
                if (isFinal && refusesContact(topic, body)) return post(topic, fields);
                if (isFinal && !status.isEmpty()) {
                    failure = refuse(topic, status, body);
                    break;
                }
                retryAfterMs = readRetryAfterMs(answer);
                String shownType = type.substring(0, Math.min(type.length(), 64));
                failure = "no controller answers: status " + statusCode + " of " + url + ", "
                    + shownType;
            } catch (IOException error) {
                String reason = error.toString();
                if (error.getCause() instanceof TimeoutException)
                    reason = "no whole answer in " + Settings.ANSWER_MS + " ms";
                failure = "no controller answers: " + url + ": " + reason;
            }
            omitsContact = false;  // the next controller may be newer
            Collections.rotate(urls, -1);
        }
        throw new IOException(failure);
    }

    private HttpRequest buildRequest(String url, Topic topic, String fields) {
        String content = "{'notes':[{" + buildNote(topic) + fields + "}]}";
        var body = HttpRequest.BodyPublishers.ofString(content.replace('\'', '"'));
        URI address = URI.create(url + "/v1/streams/" + topic.stream + "/notes");
        var request = HttpRequest.newBuilder(address).timeout(TIMEOUT)
            .header("content-type", "application/json").POST(body);
        if (!settings.token.isEmpty())
            request.header("authorization", "Bearer " + settings.token);
        return request.build();
    }

    /** Returns the fields that all notes have. */
    private String buildNote(Topic topic) {
        String note = "'writer':'" + settings.writer + "','session':'" + session
            + "','sequence':" + sequence;
        if (!settings.domain.isEmpty()) note += ",'domain':'" + settings.domain + "'";
        if (!topic.hasTakenOver) {
            if (topic.formerSessions.isEmpty()) {
                note += ",'takes_over':true";
            } else {
                note += ",'took_over':[" + topic.formerSessions + "]";
            }
            note += ",'label':'" + label + "'";
        }
        if (!omitsContact) note += contactField;
        return note;
    }

    /** Returns the wait that a controller asks for, 0 if it asks for none or until a date. */
    private static long readRetryAfterMs(HttpResponse<String> answer) {
        String seconds = answer.headers().firstValue("retry-after").orElse("");
        if (!seconds.matches("\\d{1,9}")) return 0;
        return 1_000 * Math.min(LONGEST_RETRY_AFTER_S, Long.parseLong(seconds));
    }

    /** Returns whether an older controller refuses the contact. Later notes do without it. */
    private boolean refusesContact(Topic topic, String answer) {
        boolean isUnknown = answer.contains("contact") && answer.contains("unknown field");
        if (omitsContact || contactField.isEmpty() || !isUnknown) return false;
        omitsContact = true;
        if (topic.loggedKinds.add("contact")) topic.say(Level.WARNING, "the controller refuses "
            + "noted.time.contact, so notes are sent without it: upgrade the controller");
        return true;
    }

    /** Records that a note is accepted, and returns the answer. */
    private String accept(Topic topic, String answer) {
        long lower = findNumber("'lower':" + NUMBER, answer, NEVER);
        topic.hasTakenOver = true;
        topic.formerSessions =
            find("'took_over':\\[([\\w.',\\s-]{1,1000}+)]", answer, topic.formerSessions);
        synchronized (topic) {
            topic.lower = Math.max(topic.lower, lower);
            topic.claim(topic.claimedTime);
        }
        long excludedAt = findNumber("'excluded_at':" + NUMBER, answer, 0);
        boolean isNewExclusion = excludedAt > 0
            && topic.loggedKinds.add(Long.toString(excludedAt));
        if (isNewExclusion) topic.say(Level.WARNING, "the watermark advances without it since "
            + Instant.ofEpochMilli(excludedAt) + " (" + find("'reason':" + WORD, answer, "")
            + "): records below the lower are late");
        return answer;
    }

    /** Handles a refusal, and returns the reason. A later note may be accepted. */
    private String refuse(Topic topic, String status, String answer) {
        long last = findNumber("'last':" + NUMBER, answer, 0);
        synchronized (topic) {
            topic.claim(status.equals("invalid_time") ? last : topic.notedTime);
        }
        if (find("'field':" + WORD, answer, "").equals("max_time")) topic.declaresMaxTime = false;
        switch (status) {
            case "superseded":
                sequence = Math.max(sequence, last);
                break;
            case "sealed":
                topic.stop("the stream is sealed");
                break;
            case "another_log":
                topic.stop(describeOtherLog(answer));
                break;
            case "fenced":
                if (isFencedByFormer(topic, answer)) {
                    topic.hasTakenOver = false;
                    topic.isJoined = false;
                    return "fenced by a process from which it had taken over the name, so the "
                        + "controller's database is a backup: it takes the name over again";
                }
                topic.stop(describeFence(answer));
                break;
            case "invalid_position":
                topic.isJoined = false;
                return status + ": the topic ends below what was noted: it was deleted and "
                    + "created again, or lost records: delete and create its stream, too";
            default:
                break;
        }
        String end = answer.substring(Math.max(0, answer.lastIndexOf("\"detail\"")));
        return status + ": "
            + find("'detail':'((?:[^'\\\\]|\\\\.){0,500}+)", end, "refused");
    }

    private static String describeOtherLog(String answer) {
        return "the stream's positions are of log " + find("'known':" + ID, answer, "?")
            + ", and this topic is log " + find("'given':" + ID, answer, "?")
            + ": if the topic was deleted and created again, delete and create its stream, too; "
            + "otherwise set another noted.time.stream. Then create the producer again";
    }

    /** Returns whether the name's owner is a process that lost it to this one. */
    private static boolean isFencedByFormer(Topic topic, String answer) {
        String ownerSession = find("'session':('[\\w.-]{1,64}+')", answer, "?");
        return topic.hasTakenOver && topic.formerSessions.contains(ownerSession);
    }

    private String describeFence(String answer) {
        String ownerLabel = find("'label':'([^']{0,128}+)", answer, "?");
        String owner = "another process, " + ownerLabel + ",";
        String remedy = "end it, or set another noted.time.writer";
        if (ownerLabel.equals(label)) {
            owner = "another producer of this process";
            remedy = "give each producer a noted.time.writer of its own";
        }
        Instant beganAt = Instant.ofEpochMilli(findNumber("'began_at':" + NUMBER, answer, 0));
        return owner + " took the name over at " + beganAt
            + ", and no note covers the records of this one: " + remedy;
    }
}
