package notedtime;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Collects the text of an answer, limited to 64 kB and to the time for one answer. */
final class Answer implements HttpResponse.BodySubscriber<String> {
    static final String NUMBER = "(-?+\\d++)";
    static final String WORD = "'(\\w{1,64}+)'";
    static final String ID = "'([\\w-]{1,64}+)'";
    private static final int MOST_BYTES = 65_536;

    private final CompletableFuture<String> text = new CompletableFuture<>();
    private final ByteArrayOutputStream content = new ByteArrayOutputStream();

    Answer() { text.orTimeout(Settings.ANSWER_MS, TimeUnit.MILLISECONDS); }

    @Override public CompletionStage<String> getBody() { return text; }

    @Override public void onSubscribe(Flow.Subscription body) {
        text.whenComplete((result, error) -> { if (error != null) body.cancel(); });
        body.request(Long.MAX_VALUE);
    }

    @Override public void onNext(List<ByteBuffer> pieces) {
        for (ByteBuffer piece : pieces) {
            if (content.size() + piece.remaining() > MOST_BYTES)
                text.completeExceptionally(new IOException("its answer is over 64 kB"));
            if (text.isDone()) return;  // it is too long, or the time is over
            byte[] bytes = new byte[piece.remaining()];
            piece.get(bytes);
            content.writeBytes(bytes);
        }
    }

    @Override public void onError(Throwable error) { text.completeExceptionally(error); }

    @Override public void onComplete() { text.complete(content.toString(StandardCharsets.UTF_8)); }

    /**
     * Returns the group of the first match, or the fallback. In a pattern, ' stands for ", and
     * spaces may follow a colon. Patterns must not backtrack, because an answer may be any text.
     */
    static String find(String pattern, String text, String fallback) {
        String regex = pattern.replace("':", "\":\\s*+").replace('\'', '"');
        Matcher matcher = Pattern.compile(regex, Pattern.DOTALL).matcher(text);
        if (matcher.find()) return matcher.group(1);
        return fallback;
    }

    static long findNumber(String pattern, String text, long fallback) {
        return Long.parseLong(find(pattern, text, Long.toString(fallback)));
    }
}
