/* Making answers: what a request holds, how its stream goes into a node, what follows when it
 * fails. An answer goes on when another conversation is opened; each has at most one.
 *
 *   Live: { talk, node, view (null while not shown), abort, began, first, last, pieces }
 *
 * Times are performance.now() in ms; `began` is when the request was sent, `first` and `last`
 * when the first and the newest piece of text came. */

const BEAT_MS = 2000;      /* how often a growing answer is saved */
const STALE_MS = 70000;    /* a growing answer without a beat for so long has lost its tab */
const BUSY_TRIES = 6;

const lives = new Map();   /* id of the conversation to Live */

/* The messages of the path to `node`. Empty answers (failed ones) are left out; what then stands
 * side by side is joined, since many templates want the roles to alternate. */
function requestMessages(talk, id) {
    const messages = talk.system ? [{ role: "system", content: talk.system }] : [];
    for (const { role, content } of pathTo(talk, id)) {
        const last = messages.at(-1);
        if (content && last?.role === role) {
            last.content += "\n\n" + content;
        } else if (content) {
            messages.push({ role, content });
        }
    }
    return messages;
}

function keepTalk(talk) {
    if (!saveConversation(talk)) {
        notice("This browser's storage is full: what is new is lost when the page is closed. Export or delete conversations.", 20);
    }
}

/* Sums up what a request told and what was measured; a continued answer adds to itself. */
function liveStats(live, usage, before) {
    const tokens = usage?.completion_tokens ?? live.pieces;
    const stats = {
        tokens, prompt: usage?.prompt_tokens || 0, cached: usage?.prompt_tokens_details?.cached_tokens || 0,
        total: usage ? usage.prompt_tokens + usage.completion_tokens : 0,
        first: live.first === null ? null : (live.first - live.began) / 1000,
        seconds: live.first === null ? 0 : (live.last - live.first) / 1000,
    };
    if (before) {
        stats.tokens += before.tokens;
        stats.seconds += before.seconds;
        stats.first = before.first;
    }
    return stats;
}

function takeDelta(live, delta) {
    const { node } = live;
    if (delta.content || delta.reasoning) {
        live.last = performance.now();
        live.first ??= live.last;
        live.pieces++;
        node.content += delta.content;
        node.reasoning += delta.reasoning;
        live.view?.renderSoon();
    }
    node.finish = delta.finish || node.finish;
    live.usage = delta.usage || live.usage;
    if (performance.now() - live.saved > BEAT_MS) {
        beat(live);
    }
}

function beat(live) {
    live.saved = performance.now();
    live.node.beat = Date.now();
    live.node.rev++;
    keepTalk(live.talk);
}

/* Waits; an abort ends the wait with AbortError. */
function pause(ms, signal) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, ms);
        signal.addEventListener("abort", () => {
            clearTimeout(timer);
            reject(new DOMException("stopped", "AbortError"));
        }, { once: true });
    });
}

/* One request, and again after the time that a busy server names. */
async function stream(live, body) {
    for (let tries = 1; ; tries++) {
        live.began = performance.now();
        try {
            return await streamChat(body, live.abort.signal, (delta) => takeDelta(live, delta));
        } catch (error) {
            if (!["busy", "loading"].includes(error.kind) || tries >= BUSY_TRIES || live.first !== null) {
                throw error;
            }
            await waitForTurn(live, error);
        }
    }
}

async function waitForTurn(live, error) {
    live.node.error = { kind: error.kind, text: error.message, detail: error.detail,
                        until: Date.now() + error.retryAfter * 1000 };
    live.view?.render();
    say(`${error.message} Trying again in ${plural(error.retryAfter, "second", "seconds")}.`);
    const ticking = setInterval(() => live.view?.renderCountdown(), 500);
    try {
        await Promise.race([pause(error.retryAfter * 1000, live.abort.signal),
                            new Promise((resolve) => { live.hurry = resolve; })]);
    } finally {
        clearInterval(ticking);
        live.node.error = null;
        live.view?.render();
    }
}

/* Make an answer: a new one to `parent`, or into `node` (empty it first, or continue it).
 * `show` is called with the Live as soon as there is something to show. */
async function answer(talk, { parent, node, resume }, show) {
    const before = resume ? node.stats : null;
    if (!node) {
        node = addNode(talk, parent, "assistant", "");
    } else if (!resume) {
        Object.assign(node, { content: "", reasoning: "" });
    }
    Object.assign(node, { state: "streaming", error: null, finish: null, stats: null, beat: Date.now(), rev: node.rev + 1 });
    const live = { talk, node, view: null, abort: new AbortController(), began: performance.now(), first: null,
                   last: 0, pieces: 0, usage: null, saved: performance.now(), hurry: () => {} };
    const body = { messages: requestMessages(talk, resume ? node.id : node.parent), ...samplingFields() };
    if (settings.model) {
        body.model = settings.model;
    }
    lives.set(talk.id, live);
    keepTalk(talk);
    show(live);
    const beating = setInterval(() => {
        if (performance.now() - live.saved > BEAT_MS) {
            beat(live);
        }
        live.view?.renderFigures();
    }, 1000);
    try {
        const whole = await stream(live, body);
        node.state = whole || node.finish ? "done" : "cut";
    } catch (error) {
        if (error.name === "AbortError") {
            node.state = live.lost ? "cut" : "stopped";
        } else {
            node.state = "failed";
            node.error = { kind: error.kind || "server", text: error.message, detail: error.detail || "" };
        }
    } finally {
        clearInterval(beating);
        lives.delete(talk.id);
        node.stats = live.pieces || live.usage ? liveStats(live, live.usage, before) : before;
        node.rev++;
        if (loadConversation(talk.id) || !live.removed) {
            keepTalk(talk);
        }
        if (live.view) {
            live.view.live = null;
            live.view.render();
        }
    }
    return live;
}

/* A growing answer whose tab is gone is a broken one. */
function settleStale(talk) {
    for (const node of Object.values(talk.nodes)) {
        if (node.state === "streaming" && lives.get(talk.id)?.node !== node
            && !(Date.now() - (node.beat || 0) < STALE_MS)) {
            node.state = "cut";
        }
    }
}

/* The page goes away: what is being made is kept as far as it came. */
function leaveLives() {
    for (const live of lives.values()) {
        live.node.state = "cut";
        live.node.rev++;
        saveConversation(live.talk);
        live.lost = true;
    }
}

/* What a screen reader hears of a finished answer. */
function spoken(node) {
    if (node.error) {
        return node.error.text;
    }
    const text = node.content.replace(/[*_`#>|~]+/g, " ").replace(/\s+/g, " ").trim();
    const begin = text.length > 600 ? text.slice(0, 600) + " \u2026 The rest stands in the conversation." : text;
    return (ENDINGS[node.state] || "Answer: ") + " " + begin;
}
