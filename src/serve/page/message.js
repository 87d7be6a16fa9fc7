/* One message on the page: its text, what went wrong with it, its figures and its buttons.
 *
 * A view shows a node of a conversation and is told when the node changed: renderSoon() while
 * an answer grows (once in a frame, and so seldom that showing takes a quarter of the time at
 * most), render() when it is whole. What the buttons do is given as `actions`, an object of
 * functions: the view itself changes no conversation. */

const SHOWING_SHARE = 3; /* after t ms of showing, 3 t ms of rest */

function seconds(s) {
    return s < 10 ? s.toFixed(2) + " s" : s.toFixed(s < 100 ? 1 : 0) + " s";
}

function rateText(tokens, time) {
    const rate = tokens / time;
    return `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} tokens/s`;
}

/* "42 tokens, 81 tokens/s, first after 0.12 s, 30 of 37 prompt tokens from the cache" */
function statsText(stats) {
    const parts = [plural(stats.tokens, "token", "tokens")];
    if (stats.tokens > 1 && stats.seconds > 0) {
        parts.push(rateText(stats.tokens - 1, stats.seconds));
    }
    if (stats.first !== null) {
        parts.push(`first after ${seconds(stats.first)}`);
    }
    if (stats.prompt) {
        parts.push(stats.cached ? `${NUMBER.format(stats.cached)} of ${plural(stats.prompt, "prompt token", "prompt tokens")} from cache`
            : plural(stats.prompt, "prompt token", "prompt tokens"));
    }
    return parts;
}

const ENDINGS = {
    length: "The answer reached its longest length.",
    stopped: "Stopped.",
    cut: "The connection broke off; the answer is not whole.",
};

class MessageView {
    constructor(node, actions) {
        this.node = node;
        this.actions = actions;
        this.frame = 0;
        this.notBefore = 0;
        this.live = null; /* set while this page makes the answer */
        const own = node.role === "user";
        this.text = el("div", { class: own ? "text own" : "text", dir: own ? "auto" : null });
        this.markdown = own ? null : new MarkdownView(this.text);
        this.thinking = null;
        this.trouble = el("div", { class: "trouble", hidden: true });
        this.figures = el("span", { class: "figures" });
        this.buttons = el("span", { class: "buttons" });
        this.root = el("article", { class: `message ${node.role}`, "data-id": node.id },
            el("h2", { class: "hidden" }, own ? "You" : "Answer"), this.text, this.trouble,
            el("div", { class: "foot" }, this.buttons, this.figures));
    }

    isGrowing() {
        return this.node.state === "streaming";
    }

    renderSoon() {
        if (this.frame === 0) {
            this.frame = requestAnimationFrame(() => this.inFrame());
        }
    }

    inFrame() {
        this.frame = 0;
        const begin = performance.now();
        if (begin < this.notBefore) {
            this.renderSoon();
            return;
        }
        this.renderText();
        this.renderFigures();
        this.actions.grown();
        const end = performance.now();
        this.notBefore = end + SHOWING_SHARE * (end - begin);
    }

    render() {
        cancelAnimationFrame(this.frame);
        this.frame = 0;
        this.renderText();
        this.renderTrouble();
        this.renderFigures();
        this.renderButtons();
        this.root.classList.toggle("growing", this.isGrowing());
        this.root.setAttribute("aria-busy", String(this.isGrowing()));
    }

    renderText() {
        if (!this.markdown) {
            this.text.textContent = this.node.content;
            return;
        }
        this.renderThinking();
        this.markdown.update(this.node.content, this.isGrowing());
    }

    /* What a model thinks before it answers, behind a fold. */
    renderThinking() {
        if (!this.node.reasoning) {
            return;
        }
        if (!this.thinking) {
            this.thoughts = document.createTextNode("");
            this.thinking = el("details", { class: "thinking" }, el("summary", {}, "Thoughts"),
                el("div", { class: "thoughts", dir: "auto" }, this.thoughts));
            this.text.before(this.thinking);
        }
        const known = this.thoughts.length;
        if (this.node.reasoning.startsWith(this.thoughts.data)) {
            this.thoughts.appendData(this.node.reasoning.slice(known));
        } else {
            this.thoughts.data = this.node.reasoning;
        }
    }

    renderFigures() {
        const live = this.live;
        let parts = [];
        if (this.node.error?.until) {
            parts = [];
        } else if (live && this.isGrowing()) {
            const waited = (performance.now() - live.began) / 1000;
            parts = live.first === null
                ? [waited < 1 ? "Reading" : `Reading, ${Math.round(waited)} s`]
                : [plural(live.pieces, "token", "tokens")].concat(live.pieces > 4
                    ? rateText(live.pieces - 1, (live.last - live.first) / 1000 || 1) : []);
        } else if (this.isGrowing()) {
            parts = ["Being written in another tab"];
        } else if (this.node.stats) {
            parts = statsText(this.node.stats);
        }
        const text = parts.join("\u2002\u00b7\u2002");
        if (this.figures.textContent !== text) {
            this.figures.textContent = text;
        }
    }

    renderTrouble() {
        const error = this.node.error;
        const ending = ENDINGS[this.node.state] || (this.node.state === "done" && ENDINGS[this.node.finish]);
        this.trouble.hidden = !error && !ending;
        this.trouble.classList.toggle("error", Boolean(error));
        this.trouble.classList.toggle("mild", ["busy", "loading", "key"].includes(error?.kind));
        if (error) {
            this.trouble.replaceChildren(...this.errorCard(error));
        } else if (ending) {
            const more = this.node.content ? el("button", { type: "button", class: "quiet",
                on: { click: () => this.actions.resume(this.node) } }, icon("on"), "Continue") : null;
            this.trouble.replaceChildren(el("p", {}, ending), ...(more ? [more] : []));
        }
    }

    errorCard(error) {
        const again = (label) => el("button", { type: "button", class: "quiet", on: { click: () => this.actions.retry(this.node) } }, label);
        const parts = [el("p", {}, error.text)];
        if (error.detail && error.detail !== error.text) {
            parts.push(el("p", { class: "detail", dir: "auto" }, error.detail));
        }
        if (error.kind === "key") {
            const id = "key-" + this.node.id;
            const input = el("input", { id, type: "password", autocomplete: "off", required: true, spellcheck: "false" });
            parts.push(el("form", { class: "row", on: { submit: (event) => {
                event.preventDefault();
                this.actions.useKey(this.node, input.value.trim());
            } } }, el("label", { for: id }, "API key"), input, el("button", { class: "primary" }, "Use this key")));
        } else if (error.kind === "long") {
            parts.push(el("div", { class: "row" }, el("button", { type: "button", class: "quiet",
                on: { click: this.actions.fresh } }, "New conversation"), again("Try again")));
        } else if (error.until) {
            this.countdown = el("span", {});
            parts.push(el("div", { class: "row" }, this.countdown, again("Try now"), el("button", { type: "button",
                class: "quiet", on: { click: this.actions.stop } }, "Do not wait")));
            this.renderCountdown();
        } else {
            parts.push(el("div", { class: "row" }, again("Try again")));
        }
        return parts;
    }

    renderCountdown() {
        const left = Math.max(0, Math.ceil((this.node.error.until - Date.now()) / 1000));
        this.countdown.textContent = `Trying again in ${left} s`;
    }

    renderButtons() {
        const { node, actions } = this;
        const buttons = [];
        if (!this.isGrowing()) {
            const { index, count } = actions.versions(node);
            if (count > 1) {
                const go = (by, name, label) => {
                    const button = iconButton(name, label, () => actions.turn(node, by));
                    button.disabled = index + by < 0 || index + by >= count;
                    return button;
                };
                buttons.push(el("span", { class: "versions", role: "group", "aria-label": `Version ${index + 1} of ${count}` },
                    go(-1, "left", "Version before"), el("span", {}, `${index + 1} / ${count}`), go(1, "right", "Version after")));
            }
            if (node.content) {
                const copy = iconButton("copy", node.role === "user" ? "Copy message" : "Copy answer",
                    () => copyFrom(copy, node.content));
                buttons.push(copy);
            }
            if (node.content || node.role === "user") {
                buttons.push(iconButton("edit", node.role === "user" ? "Edit message" : "Edit answer", () => this.edit()));
            }
            if (node.role === "assistant" && (node.content || !node.error)) {
                buttons.push(iconButton("again", "Answer again", () => actions.again(node)));
            }
        }
        this.buttons.replaceChildren(...buttons);
    }

    /* The text becomes a box; saving makes another version. */
    edit() {
        if (this.root.classList.contains("editing")) {
            return;
        }
        const user = this.node.role === "user";
        const area = el("textarea", { dir: "auto", "aria-label": user ? "Edit message" : "Edit answer" });
        area.value = this.node.content;
        const close = () => {
            form.remove();
            this.root.classList.remove("editing");
            this.buttons.querySelector("[aria-label^=Edit]")?.focus();
        };
        const save = (event) => {
            event.preventDefault();
            const text = area.value.trim();
            close();
            if (text && (user || text !== this.node.content)) {
                this.actions.edited(this.node, text);
            }
        };
        const form = el("form", { class: "edit", on: { submit: save, keydown: (event) => {
            if (event.key === "Escape") {
                event.stopPropagation();
                close();
            } else if (event.key === "Enter" && !event.isComposing && (event.ctrlKey || event.metaKey)) {
                save(event);
            }
        } } }, area, el("div", { class: "row end" },
            el("button", { type: "button", class: "quiet", on: { click: close } }, "Cancel"),
            el("button", { class: "primary" }, user ? "Send" : "Save")));
        this.root.classList.add("editing");
        this.text.after(form);
        const fit = () => {
            area.style.height = "auto";
            area.style.height = Math.min(area.scrollHeight + 2, innerHeight / 2) + "px";
        };
        area.addEventListener("input", fit);
        fit();
        area.focus();
    }
}
