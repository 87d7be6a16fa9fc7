/* The live panel: the server's load, from GET /metrics (Prometheus's text format, vLLM's names
 * behind `ingot:`). It asks every second while something runs or the panel changed, else every
 * five, and not at all while it cannot be seen. What the server does not tell is not shown. */

const HISTORY = 60;

/* The samples of one answer: name to [{ labels, value }]. */
function parseMetrics(text) {
    const samples = new Map();
    for (const line of text.split("\n")) {
        const found = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
        if (!found || line[0] === "#") {
            continue;
        }
        const labels = {};
        for (const [, name, value] of (found[2] || "").matchAll(/([A-Za-z_]\w*)="((?:\\.|[^"\\])*)"/g)) {
            labels[name] = value;
        }
        const value = Number(found[3].replace("Inf", "Infinity"));
        if (!samples.has(found[1])) {
            samples.set(found[1], []);
        }
        samples.get(found[1]).push({ labels, value });
    }
    return samples;
}

/* The sum over all label sets (that have `only`), or null. */
function metric(samples, name, only = {}) {
    const fit = (samples.get("ingot:" + name) || []).filter((x) =>
        Object.entries(only).every(([label, value]) => x.labels[label] === value) && Number.isFinite(x.value));
    return fit.length ? fit.reduce((sum, x) => sum + x.value, 0) : null;
}

class Gauges {
    constructor(place) {
        this.place = place;
        this.last = null;
        this.rates = [];
        this.timer = 0;
        this.failures = 0;
        this.value = {};
        this.build();
    }

    build() {
        const cell = (label, name) => {
            this.value[name] = el("dd", {}, "0");
            return el("div", { class: "cell" }, el("dt", {}, label), this.value[name]);
        };
        const bar = (label, name) => {
            this.value[name] = el("dd", {}, "");
            this.value[name + "-bar"] = el("div", { class: "bar-fill" });
            this.value[name + "-row"] = el("div", { class: "bar", hidden: true }, el("dt", {}, label), this.value[name],
                el("div", { class: "bar-line", "aria-hidden": "true" }, this.value[name + "-bar"]));
            return this.value[name + "-row"];
        };
        this.line = svg("polyline", { points: "" });
        this.area = svg("polygon", { points: "" });
        this.chart = svg("svg", { viewBox: `0 0 ${HISTORY - 1} 24`, preserveAspectRatio: "none", class: "spark",
                                  "aria-hidden": "true" }, this.area, this.line);
        this.place.replaceChildren(
            el("h2", {}, el("span", { class: "dot" }), this.value.state = el("span", {}, "Server")),
            el("dl", {}, cell("tokens/s", "rate"), cell("running", "running"), cell("waiting", "waiting"),
                this.chart, bar("Pages used", "pages"), bar("Machine limit, answers", "decode"),
                bar("Machine limit, prompts", "prompt")));
    }

    setBar(name, share) {
        this.value[name + "-row"].hidden = share === null;
        if (share !== null) {
            const percent = Math.max(0, share * 100);
            this.value[name].textContent = `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
            this.value[name + "-bar"].style.width = Math.min(100, percent) + "%";
        }
    }

    /* Tokens a second between this sample and the one before. The rows of the steps rise while an
     * answer is made; the tokens of answers may be counted at their end. */
    rate(samples, name, phase, now) {
        const total = metric(samples, "phase_rows_total", { phase }) ?? metric(samples, name);
        const before = this.last?.totals[name];
        const seconds = this.last ? (now - this.last.at) / 1000 : 0;
        const rate = total === null || before === undefined || seconds <= 0 || total < before
            ? 0 : (total - before) / seconds;
        return { total, rate };
    }

    show(samples) {
        const now = performance.now();
        const made = this.rate(samples, "generation_tokens_total", "decode", now);
        const read = this.rate(samples, "prompt_tokens_total", "prompt", now);
        this.last = { at: now, totals: { generation_tokens_total: made.total, prompt_tokens_total: read.total } };
        this.rates.push(made.rate);
        this.rates = this.rates.slice(-HISTORY);
        const running = metric(samples, "num_requests_running") || 0;
        const waiting = metric(samples, "num_requests_waiting") || 0;
        this.value.running.textContent = NUMBER.format(running);
        this.value.waiting.textContent = NUMBER.format(waiting);
        this.value.rate.textContent = NUMBER.format(Math.round(made.rate));
        this.value.rate.title = `${NUMBER.format(Math.round(read.rate))} tokens/s of prompts`;
        this.value.state.textContent = running + waiting > 0 ? "At work" : "Idle";
        this.place.dataset.state = running + waiting > 0 ? "busy" : "idle";
        this.setBar("pages", metric(samples, "kv_cache_usage_perc"));
        this.setBar("decode", metric(samples, "limit_share", { phase: "decode" }));
        this.setBar("prompt", metric(samples, "limit_share", { phase: "prompt" })
            ?? metric(samples, "limit_share", { phase: "prefill" }));
        const top = Math.max(1, ...this.rates);
        const points = this.rates.map((x, i) =>
            `${HISTORY - this.rates.length + i},${(23 - 22 * x / top).toFixed(1)}`);
        this.line.setAttribute("points", points.join(" "));
        this.area.setAttribute("points", [`${HISTORY - this.rates.length},24`, ...points, `${HISTORY - 1},24`].join(" "));
        return running + waiting > 0 || made.rate > 0 || read.rate > 0;
    }

    /* One look; returns after how many milliseconds to look again, 0 for never. */
    async look() {
        let response;
        try {
            response = await fetch("metrics", { headers: headers(), credentials: "omit", cache: "no-store" });
        } catch (error) {
            this.value.state.textContent = "No answer from the server";
            this.place.dataset.state = "gone";
            this.last = null;
            return 5000;
        }
        if (!response.ok) {
            this.place.hidden = true;
            return response.status === 404 ? 0 : 15000;
        }
        const samples = parseMetrics(await response.text());
        this.place.hidden = !settings.gauges;
        return this.show(samples) || lives.size > 0 ? 1000 : 5000;
    }

    /* Look now, and from now on. */
    wake() {
        clearTimeout(this.timer);
        this.timer = 0;
        if (this.looking || document.hidden || !settings.gauges || !this.isVisible()) {
            return;
        }
        this.looking = true;
        this.look().then((wait) => {
            this.looking = false;
            clearTimeout(this.timer);
            this.timer = wait > 0 ? setTimeout(() => this.wake(), wait) : 0;
        });
    }

    isVisible() {
        return !$("side").inert;
    }
}
