"""Headless Chromium, driven through its pipe (the DevTools protocol), for the tests of pages. Needs the standard library only."""

import base64
import json
import os
import select
import subprocess
import time

# Seconds to wait for an answer of the browser on a busy machine.
PATIENCE = 120


class Browser:
    """A Chromium with one page, and what it complained about."""

    def __init__(self, program, profile, origin="file:"):
        self.origin = origin
        to_read, self.write_end = os.pipe()
        self.read_end, to_write = os.pipe()

        def pipes():
            # Chromium reads commands from descriptor 3 and writes to 4; the copies keep them apart.
            first, second = os.dup(to_read), os.dup(to_write)
            os.dup2(first, 3)
            os.dup2(second, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest, self.complaints, self.events, self.session = 0, b"", [], [], None
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def message(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self.rest:
            if not select.select([self.read_end], [], [], max(0, deadline - time.monotonic()))[0]:
                raise SystemExit("Chromium does not answer")
            data = os.read(self.read_end, 1 << 20)
            if not data:
                raise SystemExit("Chromium ended")
            self.rest += data
        text, self.rest = self.rest.split(b"\0", 1)
        message = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown" or method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params)
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.complaints.append(params)
        if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith((self.origin, "data:", "blob:")):
            self.complaints.append({"network": params["request"]["url"]})
        if method:
            self.events.append(method)
        return message

    def call(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.write_end, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]

    def open(self, path, width, scheme):
        self.show(path.as_uri(), width, scheme)

    def show(self, url, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.events.clear()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self.events:
            self.message()

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def point_at(self, selector, kind="mouseMoved"):
        """Moves the mouse to the middle of the first element, scrolled into view."""
        x, y = self.js(f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{block: 'center'}});
            const box = node.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        if kind == "click":
            for step in ("mousePressed", "mouseReleased"):
                self.call("Input.dispatchMouseEvent", type=step, x=x, y=y, button="left", clickCount=1)
        else:
            # From beside it, so that it is entered.
            for dx in (-30, 0):
                self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + dx, y=y)

    def key(self, key, code=0):
        text = {"text": key} if len(key) == 1 else {}
        if key == "Enter":
            text = {"text": "\r"}
        for step in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=step, key=key, windowsVirtualKeyCode=code, **(text if step == "keyDown" else {}))

    def picture(self, path, full=True):
        more = {"captureBeyondViewport": full}
        if full:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            # Chromium's textures have at most 16384 pixels.
            more["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 16000), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", **more)
        path.write_bytes(base64.b64decode(shot["data"]))

    def choose_file(self, selector, path):
        """Chooses a file in a field, as a person does in the dialog."""
        field = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")
        self.call("DOM.setFileInputFiles", files=[str(path)], objectId=field["result"]["objectId"])

    def end(self):
        self.process.terminate()
        self.process.wait()
