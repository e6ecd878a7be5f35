// A page that is read from the disk may start no worker: there the search runs in a hidden frame in place of one.
if (location.protocol === "file:") {
  globalThis.Worker = class extends EventTarget {
    constructor(address) {
      super()
      this.started = new Promise((done) => {
        const frame = document.createElement("iframe")
        frame.hidden = true
        frame.srcdoc = "<!doctype html><title>Search</title>"
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = inside.document.createElement("script")
          script.src = address
          script.addEventListener("load", () => done(inside))
          inside.document.body.append(script)
        }, { once: true })
        document.body.append(frame)
      })
    }

    async postMessage(data) {
      const inside = await this.started
      inside.dispatchEvent(new MessageEvent("message", { data }))
    }
  }
}
