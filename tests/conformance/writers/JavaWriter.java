package notedtime;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.HashMap;
import org.apache.kafka.common.Uuid;

/** The interceptor's {@link Post} as a writer program of the conformance runner. */
final class JavaWriter {
    private static final long GIVE_UP_MS = (long) (1000
        * Double.parseDouble(System.getenv().getOrDefault("NOTED_TIME_GIVE_UP_S", "30")));

    private final Settings settings;
    private final Topic topic;
    private Post post;
    private final long[] ends = new long[2];

    private JavaWriter() {
        var config = new HashMap<String, Object>();
        for (String name : new String[] {"url", "stream", "writer"})
            config.put("noted.time." + name, System.getenv("NOTED_TIME_" + name.toUpperCase()));
        config.put("noted.time.order", "stamps");
        settings = new Settings(config);
        topic = new Topic(settings.stream, settings, new Topic.Log(settings));
        topic.id = Uuid.ZERO_UUID;
        post = new Post(settings);
    }

    private interface Call {
        void run() throws Exception;
    }

    /** Performs a command. Its values are a time, or the rows of the two segments. */
    private String answer(String command, long firstValue, long secondValue)
            throws InterruptedException {
        if (command.equals("ends")) {
            ends[0] = 0;
            ends[1] = 0;
        }
        if (command.equals("write") || command.equals("ends")) {
            ends[0] += firstValue;
            ends[1] += secondValue;
            topic.reach(0, ends[0]);
            topic.reach(1, ends[1]);
            topic.settledDoubts = topic.doubts;  // the ends are known
            return "'ok','position':{'0':" + ends[0] + ",'1':" + ends[1] + "}";
        }
        if (topic.isStopped) return "'fenced'";
        switch (command) {
            case "join":
                post = new Post(settings);
                topic.hasTakenOver = false;
                topic.formerSessions = "";
                return perform(() -> post.join(topic));
            case "note":
                return note(firstValue);
            case "finish":
                String fields = ",'state':'finished'" + topic.buildPosition();
                return perform(() -> post.post(topic, fields));
            case "heartbeat":
                return perform(() -> post.post(topic, ""));
            case "close":
                return "'accepted'";
            default:
                return perform(() -> post.idle(topic));
        }
    }

    private String note(long time) throws InterruptedException {
        if (time < topic.notedTime) return "'refused','code':'invalid_time'";
        String answer = perform(() -> {
            topic.largestSent = time;
            topic.lastFields = "";  // the interceptor does not repeat a note
            post.note(topic);
        });
        boolean isLate = answer.equals("'accepted'") && time <= topic.lower;
        return isLate ? answer + ",'late':true" : answer;
    }

    /** Repeats a call, at the pace of the interceptor, until its answer is final. */
    private String perform(Call call) throws InterruptedException {
        long until = System.currentTimeMillis() + GIVE_UP_MS;
        for (int failures = 0; ; failures++) {
            int kindsBefore = topic.loggedKinds.size();
            try {
                call.run();
                return topic.loggedKinds.size() > kindsBefore ? "'excluded'" : "'accepted'";
            } catch (Exception error) {
                String reason = String.valueOf(error.getMessage());
                String code = reason.split(":")[0];
                if (topic.isStopped && !code.equals("sealed")) return "'fenced'";
                if (!(error instanceof IOException) || !reason.startsWith("no controller answers"))
                    return "'refused','code':'" + code + "'";
            }
            long pause = NotedTimeInterceptor.backoff(failures, post);
            if (System.currentTimeMillis() + pause > until) return "'gave up'";
            Thread.sleep(pause);
        }
    }

    public static void main(String[] arguments) throws Exception {
        var writer = new JavaWriter();
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            String[] words = line.trim().split(" ");
            long firstValue = words.length > 1 ? Long.parseLong(words[1]) : 0;
            long secondValue = words.length > 2 ? Long.parseLong(words[2]) : 0;
            String answer = "{'answer':" + writer.answer(words[0], firstValue, secondValue) + "}";
            System.out.println(answer.replace('\'', '"'));
            if (words[0].equals("close")) System.exit(0);
        }
        Runtime.getRuntime().halt(1);  // a crash
    }
}
