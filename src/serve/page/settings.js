/* Settings: the sampling options of a request, the system prompt, the key, the theme.
 *
 * OPTIONS is the one table: a row names the field of the request, how it is asked for, its
 * range, and what it does. A field that is left empty is not sent, so that the server's own
 * default holds. */

const OPTIONS = [
    { id: "temperature", label: "Temperature", min: 0, hint: "0 takes the most probable token; higher varies more" },
    { id: "max_tokens", label: "Longest answer", min: 1, step: 1, hint: "tokens; empty: up to the end of the context" },
    { id: "top_k", label: "Top k", min: 0, step: 1, hint: "only the k most probable; 0 is off" },
    { id: "top_p", label: "Top p", min: 0.0001, max: 1, hint: "only the most probable that sum to p; 1 is off" },
    { id: "min_p", label: "Min p", min: 0, max: 1, hint: "only those at least p times the best; 0 is off" },
    { id: "typical_p", label: "Typical p", min: 0.0001, max: 1, hint: "only those of usual surprise; 1 is off" },
    { id: "repeat_penalty", label: "Repeat penalty", min: 0.0001, hint: "above 1 repeats less; 1 is off" },
    { id: "repeat_last_n", label: "Repeat window", min: -1, step: 1, hint: "tokens looked back at; 0 none, -1 all" },
    { id: "presence_penalty", label: "Presence penalty", min: -2, max: 2, hint: "against what has occurred" },
    { id: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, hint: "against what has occurred often" },
    { id: "seed", label: "Seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, hint: "the same seed gives the same answer" },
    { id: "stop", label: "Stop strings", kind: "lines", hint: "one a line; \\n stands for a line break" },
    { id: "logit_bias", label: "Logit bias", kind: "bias", hint: "a line each: token id, colon, bias (-100 to 100)" },
];

const KEY = "ingot.key";

let settings = readSettings();

function readSettings() {
    const stored = readJson("ingot.settings");
    const value = stored !== null && typeof stored === "object" ? stored : {};
    return {
        sampling: value.sampling !== null && typeof value.sampling === "object" ? value.sampling : {},
        system: typeof value.system === "string" ? value.system : "",
        theme: ["light", "dark"].includes(value.theme) ? value.theme : "auto",
        model: typeof value.model === "string" ? value.model : "",
        gauges: value.gauges !== false,
    };
}

function saveSettings() {
    storage.write("ingot.settings", JSON.stringify(settings));
}

/* The key is kept for the tab, or in the browser where that was asked for. */
function apiKey() {
    try {
        return sessionStorage.getItem(KEY) || localStorage.getItem(KEY) || "";
    } catch (error) {
        return apiKey.held || "";
    }
}

function setApiKey(key, remember) {
    try {
        sessionStorage.removeItem(KEY);
        localStorage.removeItem(KEY);
        if (key) {
            (remember ? localStorage : sessionStorage).setItem(KEY, key);
        }
    } catch (error) {
        apiKey.held = key;
    }
}

function isKeyRemembered() {
    try {
        return localStorage.getItem(KEY) !== null;
    } catch (error) {
        return false;
    }
}

function stopStrings(text) {
    return text.split("\n").filter((line) => line !== "").map((line) => line.replaceAll("\\n", "\n"));
}

/* "123: -5" and so on into an object; null when a line is something else. */
function parseBias(text) {
    const bias = {};
    for (const line of text.split("\n").map((x) => x.trim()).filter((x) => x)) {
        const found = /^(\d+)\s*[:=]\s*(-?\d+(?:\.\d+)?)$/.exec(line);
        if (!found || Math.abs(Number(found[2])) > 100) {
            return null;
        }
        bias[found[1]] = Number(found[2]);
    }
    return bias;
}

/* The fields of a request that the settings ask for. */
function samplingFields() {
    const fields = {};
    for (const option of OPTIONS) {
        const text = settings.sampling[option.id];
        if (typeof text !== "string" || text.trim() === "") {
            continue;
        }
        if (option.kind === "lines") {
            fields[option.id] = stopStrings(text);
        } else if (option.kind === "bias") {
            fields[option.id] = parseBias(text) || {};
        } else if (Number.isFinite(Number(text))) {
            fields[option.id] = Number(text);
        }
    }
    return fields;
}

function optionField(option) {
    const id = "set-" + option.id;
    const hint = id + "-hint";
    const input = option.kind
        ? el("textarea", { id, rows: "2", "aria-describedby": hint, spellcheck: "false", autocomplete: "off" })
        : el("input", { id, type: "number", min: option.min, max: option.max, step: option.step || "any",
                        inputmode: option.min < 0 ? "text" : "decimal", placeholder: "default",
                        "aria-describedby": hint, autocomplete: "off" });
    input.value = settings.sampling[option.id] || "";
    if (option.kind === "bias") {
        input.addEventListener("input", () => input.setCustomValidity(
            parseBias(input.value) ? "" : "A line is a token id, a colon and a number from -100 to 100"));
    }
    return el("div", { class: option.kind ? "field wide" : "field" },
        el("label", { for: id }, option.label), input, el("small", { id: hint }, option.hint));
}

function check(id, label, on) {
    const input = el("input", { type: "checkbox", id });
    input.checked = on;
    return el("label", { class: "check", for: id }, input, label);
}

/* Fill the dialog; `talk` is the conversation that is shown. */
function fillSettings(talk, tools) {
    const system = el("textarea", { id: "set-system", rows: "3", dir: "auto", "aria-describedby": "set-system-hint",
                                    placeholder: "For example: Answer briefly, in British English." });
    system.value = talk.head === null ? talk.system || settings.system : talk.system;
    const key = el("input", { id: "set-key", type: "password", autocomplete: "off", spellcheck: "false" });
    key.value = apiKey();
    $("settings-body").replaceChildren(
        el("section", {}, el("h3", {}, "System prompt"),
            el("label", { class: "hidden", for: "set-system" }, "System prompt"), system,
            el("small", { id: "set-system-hint" }, "What the model is told before this conversation begins."),
            check("set-system-all", "Begin new conversations with it", system.value === settings.system)),
        el("section", {}, el("h3", {}, "Sampling"),
            el("div", { class: "fields" }, OPTIONS.map(optionField))),
        el("section", {}, el("h3", {}, "Server"),
            el("div", { class: "field wide" }, el("label", { for: "set-key" }, "API key"), key,
                el("small", {}, "Only if the server asks for one. It is sent to this server alone.")),
            check("set-key-keep", "Keep the key in this browser", isKeyRemembered()),
            check("set-gauges", "Show the server's load", settings.gauges)),
        el("section", {}, el("h3", {}, "Conversations"),
            el("div", { class: "row" }, tools.map(([label, action]) =>
                el("button", { type: "button", class: "quiet", on: { click: action } }, label)))),
        el("section", {}, el("h3", {}, "Keys"),
            el("dl", { class: "keys" }, [["Enter", "send"], ["Shift Enter", "new line"], ["Esc", "stop the answer"],
                ["\u2191 in an empty box", "edit your last message"], ["/", "go to the message box"],
                ["Ctrl Shift O", "new conversation"], ["Ctrl ,", "settings"]]
                .map(([keys, what]) => [el("dt", {}, el("kbd", {}, keys)), el("dd", {}, what)]))));
}

/* Read the dialog back into the settings. */
function takeSettings(talk) {
    for (const option of OPTIONS) {
        settings.sampling[option.id] = $("set-" + option.id).value;
    }
    talk.system = $("set-system").value.trim();
    if ($("set-system-all").checked) {
        settings.system = talk.system;
    } else if (settings.system === talk.system) {
        settings.system = "";
    }
    settings.gauges = $("set-gauges").checked;
    setApiKey($("set-key").value.trim(), $("set-key-keep").checked);
    saveSettings();
}

const THEMES = { auto: "System", light: "Light", dark: "Dark" };

function applyTheme() {
    if (settings.theme === "auto") {
        delete document.documentElement.dataset.theme;
    } else {
        document.documentElement.dataset.theme = settings.theme;
    }
    const button = $("theme");
    button.querySelector("span").textContent = THEMES[settings.theme];
    button.setAttribute("aria-label", `Colours: ${THEMES[settings.theme].toLowerCase()}`);
}

function nextTheme() {
    const names = Object.keys(THEMES);
    settings.theme = names[(names.indexOf(settings.theme) + 1) % names.length];
    saveSettings();
    applyTheme();
    say(`Colours: ${THEMES[settings.theme]}`);
}
