// A browser starts no worker from a file. There, the worker of the search runs in a frame of this page.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.onmessage?.({ data: structuredClone(data) });
      this.loaded = new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        Object.assign(script, { src: url, onload: resolve, onerror: reject });
        inside.document.body.append(script);
      });
      this.loaded.catch((error) => this.onerror?.(error));
    }

    postMessage(data) {
      const sent = { data: structuredClone(data) }; // as a worker gets it: what either changes is its own
      this.loaded.then(() => this.frame.contentWindow.onmessage(sent), () => {});
    }

    terminate() {
      this.frame.remove();
    }
  };
}
