// Browsers start no Worker for pages that are opened from files. A hidden frame does its work there, so that the search works.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      frame.srcdoc =
        `<script>window.postMessage = data => parent.postMessage(data, "*")</script>` +
        `<script src="${new URL(url, document.baseURI)}"></script>`;
      this.frame = frame;
      this.ready = new Promise(resolve => (frame.onload = resolve));
      addEventListener("message", event => {
        if (event.source === frame.contentWindow)
          this.dispatchEvent(new MessageEvent("message", {data: event.data}));
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
