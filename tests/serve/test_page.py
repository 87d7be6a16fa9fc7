"""The chat page in a browser (Chromium by selenium), against page_server.py.

    test_page.py FOLDER [URL]

FOLDER holds page.html, page.css and page.js as a build makes them. With the URL of a running
`ingot serve` the cases that any model can pass run against that (`any_server` below). One line
for each case; the exit code is 77 where there is no selenium or no Chromium.
"""
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback

try:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    print("skipped: no selenium for this Python")
    sys.exit(77)

from page_server import PageServer

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
PATIENCE = 30  # seconds for whatever is waited for

CASES = []


def case(function):
    CASES.append((function, False))
    return function


def any_server(function):
    CASES.append((function, True))
    return function


class Page:
    def __init__(self, driver, url, server, downloads):
        self.driver, self.url, self.server, self.downloads = driver, url, server, downloads

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def until(self, what, script, *arguments):
        end = time.time() + PATIENCE
        while time.time() < end:
            value = self.js(script, *arguments)
            if value:
                return value
            time.sleep(0.03)
        raise AssertionError(f"never came: {what}")

    def open(self):
        """An empty page: nothing stored, nothing shown."""
        self.driver.get(self.url)
        self.js("localStorage.clear(); sessionStorage.clear(); history.replaceState(null, '', '/')")
        if not self.server:  # a true model could go on for minutes
            self.js("localStorage.setItem('ingot.settings', JSON.stringify({ sampling: { max_tokens: '40' } }))")
        self.reload()

    def reload(self):
        self.driver.refresh()
        self.until("the page", "return document.readyState === 'complete' && $('theme').textContent.trim() !== ''")
        self.until("the model", "return $('model').textContent !== '' || $('notice').textContent !== ''")

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def click(self, selector):
        # by script: what is under test is the page, not where it lies at this moment
        self.js("document.querySelector(arguments[0]).click()", selector)

    def send(self, text):
        self.find("#prompt").send_keys(text)
        self.find("#prompt").send_keys(Keys.ENTER)

    def ask(self, text):
        """Send, and wait for the whole answer."""
        self.send(text)
        self.settle()

    def settle(self):
        self.until("the end of the answer", "return lives.size === 0 && $('log').children.length > 0"
                   " && !document.querySelector('.growing')")

    def texts(self, role):
        return self.js("return [...document.querySelectorAll(`.message.${arguments[0]} > .text`)].map((x) => x.innerText)", role)

    def answer(self):
        return self.texts("assistant")[-1]

    def stop_when_it_runs(self):
        """False when the answer was whole before it could be stopped."""
        self.until("a first piece", "return document.querySelector('.growing .text')?.innerText || lives.size === 0")
        running = self.js("const runs = lives.size > 0; if (runs) $('send').click(); return runs")
        assert running or not self.server, "the answer ended too early"
        self.settle()
        return running

    def trouble(self):
        """What stands below the last answer, when it went wrong."""
        return self.js("return [...document.querySelectorAll('.assistant .trouble')].at(-1).innerText")

    def press(self, label):
        """The last button of this name."""
        button = self.js("return [...document.querySelectorAll('button')].filter((x) => (x.getAttribute('aria-label')"
                         " || x.textContent) === arguments[0] && x.checkVisibility()).at(-1)", label)
        assert button, f"no button {label!r}"
        self.js("arguments[0].click()", button)

    def complaints(self):
        """What the browser found wrong, beside answers that a case asked for."""
        return [x["message"] for x in self.driver.get_log("browser") if x["level"] == "SEVERE"
                and "Failed to load resource" not in x["message"]]


def equal(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


@any_server
def streams_an_answer(page):
    page.send("Say hello, slow")
    if page.server:
        page.until("a first piece", "return document.querySelector('.growing .text')?.innerText.length > 3")
    page.settle()
    assert page.answer().strip()
    figures = page.find(".assistant .figures").text
    assert "tokens/s" in figures and "first after" in figures, figures
    equal(page.js("return $('send').getAttribute('aria-label')"), "Send")


@case
def sends_the_conversation(page):
    page.ask("one")
    page.ask("two")
    body = page.server.requests[-1]
    equal([x["role"] for x in body["messages"]], ["user", "assistant", "user"])
    equal(body["messages"][1]["content"], "You said: one")
    equal((body["stream"], body["stream_options"]), (True, {"include_usage": True}))
    equal(body["model"], "SmolLM2-135M-Instruct")
    assert not {"temperature", "top_p", "stop", "seed"} & set(body), body
    assert "8,192" in page.find("#room").text, page.find("#room").text


@any_server
def stops(page):
    page.send("Count as far as you can, long 4000 slow")
    if page.stop_when_it_runs():
        assert "Stopped." in page.trouble()
    kept = page.answer()
    assert kept
    page.reload()
    equal(page.answer(), kept)
    if page.server:
        page.server.at_rest()


@any_server
def edits_and_answers_again(page):
    page.ask("first question")
    page.find(".user .text").click()
    page.press("Edit message")
    box = page.find(".edit textarea")
    box.clear()
    box.send_keys("other question")
    box.send_keys(Keys.CONTROL, Keys.ENTER)
    page.settle()
    equal(page.texts("user"), ["other question"])
    page.press("Answer again")
    page.settle()
    equal(page.js("return document.querySelector('.assistant .versions').innerText.replace(/\\s+/g, ' ').trim()"), "2 / 2")
    page.press("Version before")
    page.js("document.querySelector('.user .versions button').click()")
    equal(page.texts("user"), ["first question"])
    page.reload()
    equal(page.texts("user"), ["first question"])
    if page.server:
        equal(page.server.requests[-1]["messages"], [{"role": "user", "content": "other question"}])


@case
def edits_an_answer_and_goes_on(page):
    page.ask("Be short, length")
    assert "longest length" in page.trouble()
    page.press("Edit answer")
    box = page.find(".edit textarea")
    box.clear()
    box.send_keys("Half an")
    page.press("Save")
    equal(page.texts("assistant"), ["Half an"])
    page.ask("next")
    equal([x["content"] for x in page.server.requests[-1]["messages"]], ["Be short, length", "Half an", "next"])


@case
def continues_a_cut_answer(page):
    page.ask("cut this slow one in its middle please")
    assert "connection broke off" in page.trouble(), page.trouble()
    half = page.answer()
    assert half and len(half) < len("You said: cut this slow one in its middle please"), half
    page.press("Continue")
    page.settle()
    messages = page.server.requests[-1]["messages"]
    equal((messages[-1]["role"], messages[-1]["content"].strip()), ("assistant", half))
    assert page.answer().startswith(half) and len(page.answer()) > len(half)


@any_server
def keeps_conversations(page):
    page.ask("remember this")
    page.press("New conversation")
    page.ask("and that")
    page.reload()
    equal(page.texts("user"), ["and that"])
    equal(page.js("return [...document.querySelectorAll('#list .pick')].map((x) => x.textContent)"),
          ["and that", "remember this"])
    page.js("document.querySelectorAll('#list .pick')[1].click()")
    equal(page.texts("user"), ["remember this"])


@case
def keeps_what_was_growing(page):
    page.send("long 2000 slow")
    page.until("a first piece", "return document.querySelector('.growing .text')?.innerText.length > 3")
    page.reload()
    assert page.answer()
    assert "connection broke off" in page.trouble()


@case
def renames_deletes_exports(page):
    page.ask("old name")
    page.click("#list .icon")
    page.press("Rename")
    page.find("#ask-input").send_keys(Keys.CONTROL, "a")
    page.find("#ask-input").send_keys("A new <b>name</b>", Keys.ENTER)
    page.until("the name", "return $('title').textContent === 'A new <b>name</b>'")
    page.click("#more")
    page.press("Export as JSON")
    path = os.path.join(page.downloads, "A-new-b-name-b.json")
    end = time.time() + PATIENCE
    while not os.path.exists(path) and time.time() < end:
        time.sleep(0.05)
    with open(path) as file:
        exported = json.load(file)
    equal([x["content"] for x in exported["nodes"].values()], ["old name", "You said: old name"])
    page.click("#more")
    page.press("Delete")
    page.click("#ask-yes")
    page.until("the empty page", "return !$('empty').hidden && $('list').children.length === 0")
    equal(page.js("return Object.keys(localStorage).filter((x) => x.startsWith('ingot.chat'))"), [])
    page.find("#import-file").send_keys(path)
    page.until("the import", "return $('list').children.length === 1")
    page.js("document.querySelector('#list .pick').click()")
    equal(page.texts("user"), ["old name"])
    hostile = os.path.join(page.downloads, "hostile.json")
    for value in ([], {"id": "../x", "nodes": {}}, {"conversations": [{"id": "a", "title": 1, "updated": 1, "nodes": {}}]}):
        with open(hostile, "w") as file:
            json.dump(value, file)
        page.find("#import-file").send_keys(hostile)
    page.until("a word on it", "return /No conversation|no conversations/.test($('notice').textContent)")
    equal(page.js("return $('list').children.length"), 1)


@case
def deleting_ends_the_answer(page):
    page.send("long 4000 slow")
    page.until("a first piece", "return document.querySelector('.growing .text')?.innerText.length > 3")
    page.click("#more")
    page.press("Delete")
    page.click("#ask-yes")
    page.until("the empty page", "return !$('empty').hidden && lives.size === 0")
    equal(page.js("return Object.keys(localStorage).filter((x) => x.startsWith('ingot.chat'))"), [])
    page.server.at_rest()


@case
def hostile_markdown_stays_text(page):
    page.ask("hostile")
    equal(page.js("return window.broken === undefined"), True)
    equal(page.js("return [...$('log').querySelectorAll('script, img, iframe, style, base, object, embed, form, link')]"
                  ".map((x) => x.outerHTML)"), [])
    equal(page.js("return [...$('log').querySelectorAll('*')].filter((x) => [...x.attributes].some((a) =>"
                  " a.name.startsWith('on') || a.name === 'srcdoc')).length"), 0)
    links = page.js("return [...$('log').querySelectorAll('a')].map((x) => [x.getAttribute('href'), x.rel, x.target])")
    assert links and all(x[0].startswith("https://example.org/") for x in links), links
    assert all("noopener" in x[1] and x[2] == "_blank" for x in links), links
    text = page.answer()
    for words in ("<script>window.broken = 1</script>", "<script>window.broken = 14</script>", "end of it",
                  "unclosed <b>", "<b>a</b>"):
        assert words in text, words
    deepest = page.js("let most = 0; for (const x of $('log').querySelectorAll('*')) { let n = 0;"
                      " for (let y = x; y !== $('log'); y = y.parentNode) n++; most = Math.max(most, n); } return most")
    assert deepest < 60, deepest


@case
def markdown_as_it_grows_is_markdown_at_once(page):
    """Fed by one character at a time or whole, each text gives the same page."""
    page.js("""
        const whole = (text) => { const n = el("div"); new MarkdownView(n).update(text, false); return n.innerHTML; };
        window.differences = (texts) => texts.filter((text) => {
            const node = el("div");
            const view = new MarkdownView(node);
            for (let i = 1; i < text.length; i += 1 + i % 3) view.update(text.slice(0, i), true);
            view.update(text, false);
            return node.innerHTML !== whole(text);
        });
        window.whole = whole;""")
    texts = ["a\n\nb", "# h\ntext\n***\n> q\n> r\n\nlast", "1. a\n2. b\n   - c\n\n   d\n3. e\n\nend",
             "```py\nx = 1\n\n```\nafter\n```\nopen", "| a | b |\n|---|--:|\n| 1 | 2 |\n| 3 |\n\nz",
             "- [x] **done** it\n- [ ] `not` yet\n\n\n- three", "text\n| a | b |\n|---|---|\n| 1 | 2 |",
             "a *b **c** d* _e_ ~~f~~ `g` [h](https://e.org) <br> \\*i\\* snake_case_word 2*3*4"]
    equal(page.js("return differences(arguments[0])", texts), [])
    for text, wanted in [
            ("a *b **c** d* e", '<p dir="ltr">a <em>b <strong>c</strong> d</em> e</p>'),
            ("***x***", '<p dir="ltr"><em><strong>x</strong></em></p>'),
            ("snake_case_word and 2 * 3 * 4", '<p dir="ltr">snake_case_word and 2 * 3 * 4</p>'),
            ("`a ` `` b`c ``", '<p dir="ltr"><code>a </code> <code>b`c</code></p>'),
            ("\\*x\\* &lt;b&gt;", '<p dir="ltr">*x* &lt;b&gt;</p>'),
            ("~~a~~ ~b~", '<p dir="ltr"><del>a</del> ~b~</p>'),
            ("**open", '<p dir="ltr">**open</p>'),
            ("3. c\n4. d", '<ol start="3" dir="ltr"><li><p dir="ltr">c</p></li><li><p dir="ltr">d</p></li></ol>'),
            ("## t ##", '<h4 dir="ltr" class="h2">t</h4>')]:
        equal(page.js("return whole(arguments[0])", text), wanted)


@case
def parsers_take_linear_time(page):
    slow = page.js("""
        const shapes = ["*a ", "**", "`", "[", "](", "[a](", "_a*", "> ", "- ", "|", "1. ", "~~", "\\\\(", "&", "<", "http://",
                        "*a _b ", "``` ", "#", "\\t", "![", "a\\n", "|-", "- a\\n  ", "```\\n", "***a**b*"];
        const once = (text) => { const from = performance.now(); new MarkdownView(el("div")).update(text, true);
                                 return performance.now() - from; };
        const best = (shape, n) => { const text = shape.repeat(n / shape.length); return Math.min(once(text), once(text)); };
        return shapes.map((x) => [x, best(x, 4000), best(x, 32000)]).filter((x) => x[2] > 400 && x[2] > 24 * Math.max(x[1], 4));""")
    equal(slow, [])


@case
def long_answers_do_not_freeze(page):
    page.js("""
        window.gaps = [];
        let last = performance.now();
        const tick = () => { const now = performance.now(); gaps.push(now - last); last = now; requestAnimationFrame(tick); };
        requestAnimationFrame(tick);""")
    page.send("long 10000")
    page.settle()
    longest = page.js("return Math.max(...gaps)")
    assert longest < 2000, f"{longest:.0f} ms between two frames"
    assert len(page.answer()) > 20000
    assert "10,000 tokens" in page.find(".assistant .figures").text


@case
def busy_server_is_asked_again(page):
    page.server.busy = 2
    page.send("busy")
    page.until("the wait", "return /Trying again in/.test(document.querySelector('.trouble.error')?.textContent || '')")
    page.settle()
    equal(page.answer(), "You said: busy")
    equal(len(page.server.requests), 3)
    assert page.find(".assistant .trouble").get_attribute("hidden") is not None
    page.server.busy = 9
    page.send("busy")
    page.until("the wait", "return /Trying again in/.test([...document.querySelectorAll('.trouble.error')].at(-1)?.textContent || '')")
    page.press("Do not wait")
    page.settle()


@case
def key_is_asked_for(page):
    page.server.key = "secret"
    page.reload()
    assert "key" in page.find("#notice").text
    page.ask("hello")
    assert "asks for a key" in page.trouble()
    page.find(".assistant .trouble input").send_keys("wrong", Keys.ENTER)
    page.until("the refusal", "return /does not take this key/.test(document.querySelector('.assistant .trouble').textContent)")
    page.find(".assistant .trouble input").send_keys("secret", Keys.ENTER)
    page.until("the answer", "return /You said: hello/.test($('log').textContent) && lives.size === 0")
    equal(page.js("return [localStorage.getItem('ingot.key'), sessionStorage.getItem('ingot.key')]"), [None, "secret"])


@case
def errors_are_said_in_words(page):
    page.ask("full")
    assert "9,000 tokens; the context holds 8,192" in page.trouble(), page.trouble()
    page.ask("a bit less")
    equal(page.server.requests[-1]["messages"], [{"role": "user", "content": "full\n\na bit less"}])
    page.press("New conversation")
    page.ask("broken")
    assert "ran into an error" in page.trouble() and "NaN" in page.trouble()
    url, page.url = page.url, None
    page.server.stop()
    page.press("New conversation")
    page.ask("anyone there?")
    assert "does not answer" in page.trouble()
    page.server.__init__(page.server.folder, int(url.split(":")[2].strip("/")))
    page.url = page.server.start()
    page.press("Try again")
    page.settle()
    equal(page.answer(), "You said: anyone there?")


@case
def settings_reach_the_request(page):
    values = {"temperature": "0", "max_tokens": "77", "top_k": "5", "top_p": "0.9", "min_p": "0.1", "typical_p": "0.8",
              "repeat_penalty": "1.1", "repeat_last_n": "-1", "presence_penalty": "-0.5", "frequency_penalty": "2",
              "seed": "9007199254740991", "stop": "END\\n\n###", "logit_bias": "260: -5\n30: 2.5"}
    page.click("#settings-open")
    for name, value in values.items():
        page.find(f"#set-{name}").send_keys(value)
    page.find("#set-system").send_keys("Be brief.")
    page.click("#settings .primary")
    page.ask("go")
    body = page.server.requests[-1]
    equal(body["messages"][0], {"role": "system", "content": "Be brief."})
    wanted = {k: json.loads(v) for k, v in values.items() if k not in ("stop", "logit_bias")}
    wanted |= {"stop": ["END\n", "###"], "logit_bias": {"260": -5, "30": 2.5}}
    equal({k: body.get(k) for k in values}, wanted)
    page.click("#settings-open")
    equal(page.find("#set-top_p").get_attribute("value"), "0.9")
    page.find("#set-top_p").clear()
    page.find("#set-top_p").send_keys("1.5")
    page.click("#settings .primary")
    assert page.js("return $('settings').open"), "a value out of range was taken"
    page.find("#set-top_p").clear()
    page.find("#set-logit_bias").send_keys("\nnonsense")
    page.click("#settings .primary")
    assert page.js("return $('settings').open"), "a bias that is none was taken"
    page.click("#settings-reset")
    page.click("#settings .primary")
    page.ask("again")
    assert not set(values) & set(page.server.requests[-1]), page.server.requests[-1]


@any_server
def two_tabs_agree(page):
    page.ask("from the first")
    first = page.driver.current_window_handle
    address = page.driver.current_url
    page.driver.switch_to.new_window("tab")
    page.driver.get(address)
    page.until("the conversation", "return document.querySelectorAll('.message').length === 2")
    page.ask("from the second")
    page.driver.switch_to.window(first)
    page.until("the other's message", "return document.querySelectorAll('.message').length === 4"
               " && !document.querySelector('.growing')")
    equal(page.texts("user"), ["from the first", "from the second"])
    page.ask("back in the first")
    page.driver.switch_to.window(page.driver.window_handles[-1])
    page.until("the first's message", "return document.querySelectorAll('.message').length === 6")
    page.click("#more")
    page.press("Delete")
    page.click("#ask-yes")
    page.until("no conversation", "return !$('empty').hidden")
    page.driver.close()
    page.driver.switch_to.window(first)
    page.until("the deletion", "return !$('empty').hidden && /another tab/.test($('notice').textContent)")


@any_server
def works_by_keyboard_alone(page):
    focus = lambda: page.js("const x = document.activeElement; return x.id || x.getAttribute('aria-label') || x.textContent")

    def key(*keys):
        page.driver.switch_to.active_element.send_keys(*keys)

    equal(focus(), "prompt")
    key("by keyboard", Keys.ENTER)
    page.settle()
    equal(focus(), "prompt")
    key("line", Keys.SHIFT + Keys.ENTER)
    equal(page.js("return $('prompt').value"), "line\n")
    key(Keys.CONTROL, "a")
    key(Keys.DELETE)
    key(Keys.ARROW_UP)
    equal(focus(), "Edit message")
    key(" too", Keys.ESCAPE)
    equal(page.texts("user"), ["by keyboard"])
    equal(focus(), "Edit message")
    seen = []
    for _ in range(40):
        key(Keys.TAB)
        seen.append(focus())
        style = page.js("const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth,"
                        " document.activeElement.id]")
        assert style[0] != "none" or style[2] == "prompt", f"focus is not seen on {seen[-1]}"
        if seen[-1] == "prompt":
            break
    assert "Copy answer" in seen and "Answer again" in seen, seen
    page.js("document.activeElement.blur()")
    page.find("body").send_keys("/")
    equal(focus(), "prompt")
    page.js("$('more').focus()")
    key(Keys.ENTER)
    equal(focus(), "Rename")
    key(Keys.ARROW_DOWN)
    key(Keys.ARROW_DOWN)
    key(Keys.ARROW_DOWN)
    equal(focus(), "Delete")
    key(Keys.ESCAPE)
    equal(focus(), "more")
    page.js("$('prompt').focus()")
    key("Count as far as you can, long 3000 slow", Keys.ENTER)
    if page.server:
        page.until("a first piece", "return document.querySelector('.growing .text')?.innerText.length > 3")
    key(Keys.ESCAPE)
    page.settle()
    assert "Stopped." in page.trouble() or not page.server


@case
def screen_readers_are_told(page):
    page.js("""
        window.heard = [];
        new MutationObserver(() => { if ($("say").textContent) heard.push($("say").textContent); })
            .observe($("say"), { childList: true, characterData: true, subtree: true });""")
    page.ask("markdown")
    page.until("the answer aloud", "return heard.some((x) => x.startsWith('Answer:'))")
    heard = page.js("return heard")
    assert len(heard) <= 3, f"too chatty: {heard}"
    equal(page.js("return $('log').getAttribute('aria-live')"), "off")
    nameless = page.js("""
        return [...document.querySelectorAll("button, input, textarea, select, a, [role=region]")].filter((x) =>
            !(x.getAttribute("aria-label") || x.textContent.trim() || x.labels?.length || x.hidden)).map((x) => x.outerHTML)""")
    equal(nameless, [])
    equal(page.js("return [...document.querySelectorAll('[id]')].map((x) => x.id).filter((x, i, all) => all.indexOf(x) < i)"), [])


CONTRAST = """
    const parse = (text) => { const v = text.match(/[\\d.]+/g).map(Number); return v.length < 4 ? [...v, 1] : v; };
    const light = ([r, g, b]) => [r, g, b].map((x) => x / 255).map((x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4)
        .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
    const low = [];
    for (const node of document.querySelectorAll("body *")) {
        if (![...node.childNodes].some((x) => x.nodeType === 3 && x.data.trim()) || !node.checkVisibility({ visibilityProperty: true })
            || node.closest(".hidden, .skip, :disabled, option, noscript")) continue;
        let ground = null;
        for (let up = node; up && !ground; up = up.parentElement) {
            const colour = parse(getComputedStyle(up).backgroundColor);
            if (colour[3] > 0) ground = colour;
        }
        const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground)];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) low.push(`${node.tagName}.${node.className} ${node.textContent.trim().slice(0, 20)} ${ratio.toFixed(2)}`);
    }
    return [...new Set(low)];"""


@case
def contrast_is_enough(page):
    equal(page.js(CONTRAST), [])
    page.ask("markdown")
    page.ask("broken")
    page.ask("think and cut")
    for theme in ("light", "dark"):
        page.js("settings.theme = arguments[0]; applyTheme()", theme)
        equal(page.js(CONTRAST), [])
        page.click("#settings-open")
        equal(page.js(CONTRAST), [])
        page.click("#settings [data-close]")
    page.js("settings.theme = 'dark'; saveSettings()")
    page.reload()
    equal(page.js("return getComputedStyle(document.documentElement).colorScheme"), "dark")


@case
def fits_a_phone(page):
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    try:
        page.reload()
        page.ask("wide")
        equal(page.js("return [document.documentElement.scrollWidth, $('scroll').scrollWidth <= $('scroll').clientWidth]"),
              [360, True])
        outside = page.js("return [...document.querySelectorAll('main *')].filter((x) => x.checkVisibility() &&"
                          " !x.closest('pre, .table, .hidden, svg') && x.getBoundingClientRect().right > 361).map((x) => x.outerHTML.slice(0, 80))")
        equal(outside, [])
        assert page.js("return $('side').inert"), "what is out of sight can be reached by Tab"
        page.click("#side-open")
        equal(page.js("return [$('side').inert, document.activeElement.id]"), [False, "side-close"])
        page.click("#side-close")
        page.click("#settings-open")
        equal(page.js("return $('settings').scrollWidth <= 360"), True)
        page.click("#settings [data-close]")
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@case
def right_to_left(page):
    page.ask("rtl")
    sides = page.js("return [...document.querySelectorAll('.assistant .text > *')].map((x) => getComputedStyle(x).direction)")
    equal(sides, ["rtl", "rtl", "rtl", "ltr"])
    assert "\U0001f999" in page.answer(), "characters that came in two pieces"


@case
def thoughts_are_folded(page):
    page.ask("think")
    equal(page.find(".thinking summary").text, "Thoughts")
    equal(page.js("return document.querySelector('.thoughts').textContent"), "The question is short. A short answer is right.")
    assert not page.find(".thoughts").is_displayed()
    page.ask("more")
    assert "reasoning" not in json.dumps(page.server.requests[-1])


@case
def shows_the_load(page):
    page.send("long 4000 slow")
    page.until("the load", "return $('gauges').dataset.state === 'busy' && /84/.test($('gauges').textContent)")
    assert "18 %" in page.find("#gauges").text, page.find("#gauges").text
    page.press("Stop the answer")
    page.settle()
    page.until("rest", "return $('gauges').dataset.state === 'idle'")


@case
def full_storage_is_told(page):
    page.js("Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }")
    page.ask("kept in memory")
    equal(page.answer(), "You said: kept in memory")
    assert "storage is full" in page.find("#notice").text


@contextlib.contextmanager
def browser(downloads):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,860"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": downloads})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def run(function, driver, folder, url, downloads):
    server = None if url else PageServer(folder)
    page = Page(driver, url or server.start(), server, downloads)
    page.open()
    try:
        function(page)
        equal(page.complaints(), [])
        return True
    except Exception:  # whatever it is, the other cases run
        traceback.print_exc()
        return False
    finally:
        driver.get("about:blank")
        driver.get_log("browser")
        if server:
            server.stop()


def main():
    if not CHROMIUM or not DRIVER:
        print("skipped: no Chromium with its driver here")
        sys.exit(77)
    folder, url = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 and "://" in sys.argv[2] else None
    only = [x for x in sys.argv[2:] if x != url]
    failed = n = 0
    with tempfile.TemporaryDirectory() as downloads, browser(downloads) as driver:
        for function, any_model in CASES:
            if (url and not any_model) or (only and function.__name__ not in only):
                continue
            begin = time.time()
            good = run(function, driver, folder, url, downloads)
            n += 1
            failed += not good
            print(f"{'ok    ' if good else 'FAILED'} {function.__name__} ({time.time() - begin:.1f} s)", flush=True)
    print(f"{n} cases, {failed} failed")
    sys.exit(1 if failed else 0)


main()
