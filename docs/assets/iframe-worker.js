/* The search runs in a worker, which browsers refuse to start from file://. There, this takes its place: the script of
   the worker runs in a hidden frame, and messages pass between frame and page. */
(function () {
  if (location.protocol !== "file:") return

  class FrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inner = this.frame.contentWindow
      addEventListener("message", event => {
        if (event.source !== inner) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      })
      /* importScripts of a worker blocks; in a frame, scripts are added one after the other. */
      const start = `
        postMessage = data => parent.postMessage(data, "*")
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(done => {
          const script = document.createElement("script")
          script.src = url
          script.onload = done
          document.head.appendChild(script)
        })), Promise.resolve())`
      this.ready = new Promise(resolve => { this.frame.addEventListener("load", resolve, { once: true }) })
      inner.document.open()
      inner.document.write(`<base href="${document.baseURI}"><script>${start}<\/script><script src="${url}"><\/script>`)
      inner.document.close()
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }

  window.Worker = FrameWorker
})()
