import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

/** Notes with the client that Java has by default, which offers HTTP/2 by Upgrade. */
public class Main {
    public static void main(String[] arguments) throws Exception {
        var client = HttpClient.newHttpClient();
        var stream = arguments[0] + "/v1/streams/java";
        send(client, HttpRequest.newBuilder(URI.create(stream)).PUT(BodyPublishers.ofString("{}")));
        for (int time = 1; time <= 5; time++) {
            var body = "{\"notes\":[{\"writer\":\"j\",\"time\":" + time + "}]}";
            var request = HttpRequest.newBuilder(URI.create(stream + "/notes"));
            send(client, request.POST(BodyPublishers.ofString(body)));
        }
    }

    static void send(HttpClient client, HttpRequest.Builder request) throws Exception {
        request.header("Content-Type", "application/json");
        var answer = client.send(request.build(), BodyHandlers.ofString());
        System.out.println(answer.version() + " " + answer.statusCode());
    }
}
