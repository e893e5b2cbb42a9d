package notedtime;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** The settings for noted time in a producer's configuration. */
final class Settings {
    static final int ANSWER_MS = 5_000, HOUR_MS = 3_600_000;
    static final String OBSERVE = "have `noted-time observe kafka` note for the topic";
    private static final Set<String> NAMES = new TreeSet<>(Set.of("url", "writer", "token",
        "delay.ms", "order", "period.ms", "timeout.ms", "domain", "stream", "topics",
        "on.failure", "contact"));

    final Map<String, ?> config;
    final String client, token, domain, stream, contact;
    final List<String> urls;
    final long delay, period, timeout;
    /** The longest time that a delivery can take, in ms. Each part is limited to an hour. */
    final long longest;
    final boolean byStamps, stops;
    final Pattern wanted;
    /** The writer's name. If it is not set, {@link Post} creates one. */
    volatile String writer;

    /** Reads the settings, and throws {@link IllegalArgumentException} if one is invalid. */
    Settings(Map<String, ?> given) {
        config = given;
        client = clientOf(given);
        for (String name : config.keySet()) refuse(name.startsWith("noted.time.") && !NAMES
            .contains(name.substring(11)), name + " is unknown: the settings are " + NAMES);
        refuse(!text("transactional.id", "").isEmpty(), "transactional.id is set, and a record is "
            + "acknowledged before its transaction is committed; " + OBSERVE);
        refuse(text("acks", "").equals("0"), "acks=0 reports no offsets; leave it out, or "
            + OBSERVE);
        urls = List.of(setting("url", "", "(https?://[^@\\s,]+(?<!/v1)[\\s,]*)+",
            "the URL of a controller, such as http://127.0.0.1:7464").split("/?[\\s,]+|/$"));
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
        wanted = pattern("noted.time.topics");
        writer = setting("writer", "", name, what);
        contact = setting("contact", "", "[^\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]{0,200}", "a line of up "
            + "to 200 characters, without control and invisible ones");
        token = setting("token", shown == null ? "" : shown, "[!-~]*", "a token");
    }

    /** Returns the producer's client.id, with invalid characters of a writer's name replaced. */
    static String clientOf(Map<String, ?> given) {
        Object id = given.get("client.id");
        return id == null ? "" : id.toString().replaceAll("[^A-Za-z0-9._-]", "-");
    }

    private static void refuse(boolean wrong, String why) {
        if (wrong) throw new IllegalArgumentException(why);
    }

    private String text(String name, String otherwise) {
        return config.get(name) == null ? otherwise : config.get(name).toString();
    }

    private Pattern pattern(String name) {
        try {
            return Pattern.compile(text(name, ".*"));
        } catch (PatternSyntaxException error) {
            throw new IllegalArgumentException(name + "=" + error.getPattern() + " is not a "
                + "regular expression: " + error.getDescription());
        }
    }

    private long milliseconds(String name, long otherwise) {
        return Math.min(Long.parseLong(text(name, "" + otherwise).trim()), HOUR_MS);
    }

    /** Returns a setting that matches the form, with {client.id} replaced by the producer's. */
    private String setting(String name, String otherwise, String form, String what) {
        String text = text("noted.time." + name, otherwise).trim().replace("{client.id}", client);
        boolean isSecret = name.equals("token") || text.contains("@");
        refuse(!text.matches(form), "noted.time." + name + (isSecret ? "" : "=" + text) + " is not "
            + what);
        return text;
    }
}
