package notedtime;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** The settings for noted time in a producer's configuration. */
final class Settings {
    static final int ANSWER_MS = 5_000;
    static final int HOUR_MS = 3_600_000;
    static final String OBSERVE = "have `noted-time observe kafka` note for the topic";
    private static final String PREFIX = "noted.time.";
    private static final Set<String> NAMES = new TreeSet<>(Set.of("url", "writer", "token",
        "delay.ms", "order", "period.ms", "timeout.ms", "domain", "stream", "topics",
        "on.failure", "contact"));
    private static final String NAME_FORM = "(?!\\.\\.?$)[A-Za-z0-9._-]{0,249}";
    private static final String NAME_DESCRIPTION =
        "a name of up to 249 letters, digits, '.', '_' and '-'";

    final Map<String, ?> config;
    final String client;
    final String token;
    final String domain;
    final String stream;
    final String contact;
    final List<String> urls;
    final long delayMs;
    final long periodMs;
    /** How long the watermark waits for a silent writer, 0 if the settings do not say it. */
    final long timeoutMs;
    /** The longest time that a delivery can take. Each part is limited to an hour. */
    final long longestDeliveryMs;
    /** Whether time follows the timestamps of records, and not the clock. */
    final boolean ordersByStamps;
    final boolean stopsOnFailure;
    final Pattern wantedTopics;
    /** The writer's name. If it is not set, {@link Post} creates one. */
    volatile String writer;

    /** Reads the settings, and throws {@link IllegalArgumentException} if one is invalid. */
    Settings(Map<String, ?> config) {
        this.config = config;
        client = nameClient(config);
        checkNames();
        checkDelivery();
        urls = List.of(read("url", "", "(https?://[^@\\s,]+(?<!/v1)[\\s,]*)+",
            "the URL of a controller, such as http://127.0.0.1:7464").split("/?[\\s,]+|/$"));
        delayMs = Long.parseLong(read("delay.ms", "0", "\\d{1,15}", "a number of ms"));
        periodMs = Long.parseLong(
            read("period.ms", "1000", "[1-9]\\d{1,8}", "at least 10 ms"));
        timeoutMs = Long.parseLong(read("timeout.ms", "0", "\\d{1,15}", "a number of ms"));
        refuseIf(timeoutMs > 0 && timeoutMs <= periodMs,
            "noted.time.timeout.ms is not above period.ms");
        ordersByStamps = read("order", "clock", "clock|stamps", "clock or stamps")
            .equals("stamps");
        domain = read("domain", "", NAME_FORM, NAME_DESCRIPTION);
        stream = read("stream", "{topic}", "(?!\\.\\.?$)([A-Za-z0-9._-]|\\{topic}){1,249}",
            NAME_DESCRIPTION + ", in which {topic} stands for the topic's");
        stopsOnFailure = read("on.failure", "continue", "continue|stop", "continue or stop")
            .equals("stop");
        longestDeliveryMs = findMs("delivery.timeout.ms", 120_000)
            + findMs("max.block.ms", 60_000) + ANSWER_MS;
        wantedTopics = compilePattern("noted.time.topics");
        writer = read("writer", "", NAME_FORM, NAME_DESCRIPTION);
        contact = read("contact", "", "[^\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]{0,200}",
            "a line of up to 200 characters, without control and invisible ones");
        String environmentToken = System.getenv("NOTED_TIME_TOKEN");
        if (environmentToken == null) environmentToken = "";
        token = read("token", environmentToken, "[!-~]*", "a token");
    }

    /** Returns the producer's client.id, with invalid characters of a writer's name replaced. */
    static String nameClient(Map<String, ?> config) {
        Object id = config.get("client.id");
        if (id == null) return "";
        return id.toString().replaceAll("[^A-Za-z0-9._-]", "-");
    }

    private void checkNames() {
        for (String name : config.keySet()) {
            boolean isOurs = name.startsWith(PREFIX);
            refuseIf(isOurs && !NAMES.contains(name.substring(PREFIX.length())),
                name + " is unknown: the settings are " + NAMES);
        }
    }

    /** Refuses producers whose acknowledgements do not say that a record is written. */
    private void checkDelivery() {
        refuseIf(!find("transactional.id", "").isEmpty(), "transactional.id is set, and a record "
            + "is acknowledged before its transaction is committed; " + OBSERVE);
        refuseIf(find("acks", "").equals("0"), "acks=0 reports no offsets; leave it out, or "
            + OBSERVE);
    }

    private static void refuseIf(boolean isWrong, String reason) {
        if (isWrong) throw new IllegalArgumentException(reason);
    }

    private String find(String name, String fallback) {
        Object value = config.get(name);
        return value == null ? fallback : value.toString();
    }

    private long findMs(String name, long fallback) {
        return Math.min(Long.parseLong(find(name, Long.toString(fallback)).trim()), HOUR_MS);
    }

    private Pattern compilePattern(String name) {
        try {
            return Pattern.compile(find(name, ".*"));
        } catch (PatternSyntaxException error) {
            throw new IllegalArgumentException(name + "=" + error.getPattern() + " is not a "
                + "regular expression: " + error.getDescription());
        }
    }

    /** Returns a setting that matches the form, with {client.id} replaced by the producer's. */
    private String read(String name, String fallback, String form, String description) {
        String value = find(PREFIX + name, fallback).trim().replace("{client.id}", client);
        boolean isSecret = name.equals("token") || value.contains("@");
        String shownValue = isSecret ? "" : "=" + value;
        refuseIf(!value.matches(form), PREFIX + name + shownValue + " is not " + description);
        return value;
    }
}
