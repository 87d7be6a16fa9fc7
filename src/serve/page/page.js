/* The page itself: which conversation is shown, the list, the message box, keys, other tabs.
 *
 * `shown` is the one state: the conversation, a view for each message of its path, and whether
 * the end of the log is held in sight. */

const NARROW = matchMedia("(max-width: 800px)");
const TOUCH = matchMedia("(pointer: coarse)");
const IDEAS = ["Explain how a language model chooses its next word", "Write a short poem about molten metal",
               "A Python function that merges two sorted lists"];

const shown = { talk: newConversation(settings.system), views: [], hold: true, models: [] };
const gauges = new Gauges($("gauges"));

/* ---- the log ---- */

function toEnd() {
    if (shown.hold) {
        $("scroll").scrollTop = $("scroll").scrollHeight;
    }
}

function holdEnd() {
    shown.hold = true;
    $("jump").hidden = true;
    toEnd();
}

function onScroll() {
    const log = $("scroll");
    shown.hold = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    $("jump").hidden = shown.hold;
}

const actions = {
    grown: toEnd,
    fresh: () => startNew(),
    stop: () => lives.get(shown.talk.id)?.abort.abort(),
    versions(node) {
        const kids = childrenOf(shown.talk, node.parent).filter((x) => x.role === node.role);
        return { index: kids.indexOf(node), count: kids.length, kids };
    },
    turn(node, by) {
        const { index, kids } = this.versions(node);
        shown.talk.head = tipOf(shown.talk, kids[index + by].id);
        keepTalk(shown.talk);
        showTalk();
        const view = shown.views.find((x) => x.node === kids[index + by]);
        (view?.buttons.querySelector(".versions button:not([disabled])"))?.focus();
    },
    again(node) {
        makeAnswer({ parent: node.parent });
    },
    retry(node) {
        const live = lives.get(shown.talk.id);
        if (live) {
            live.hurry();
        } else {
            makeAnswer(node.content ? { parent: node.parent } : { node });
        }
    },
    resume(node) {
        makeAnswer({ node, resume: true });
    },
    useKey(node, key) {
        setApiKey(key, isKeyRemembered());
        findModels();
        gauges.wake();
        this.retry(node);
    },
    edited(node, text) {
        const fresh = addNode(shown.talk, node.parent, node.role, text);
        if (node.role === "user") {
            makeAnswer({ parent: fresh.id });
        } else {
            keepTalk(shown.talk);
            showTalk();
        }
    },
};

function showTalk() {
    const { talk } = shown;
    const live = lives.get(talk.id);
    const path = pathTo(talk, talk.head);
    shown.views = path.map((node) => new MessageView(node, actions));
    for (const view of shown.views) {
        if (live?.node === view.node) {
            view.live = live;
            live.view = view;
        }
        view.render();
    }
    $("log").replaceChildren(...shown.views.map((view) => view.root));
    $("empty").hidden = path.length > 0;
    document.body.classList.toggle("is-empty", path.length === 0);
    showState();
    toEnd();
}

/* Title, list, button and room: what follows from the state without touching messages. */
function showState() {
    const { talk } = shown;
    const live = lives.has(talk.id);
    const title = talk.title || "New conversation";
    $("title").textContent = title;
    document.title = talk.title ? `${talk.title} \u2013 Ingot` : "Ingot";
    $("send").setAttribute("aria-label", live ? "Stop the answer" : "Send");
    $("send").classList.toggle("stop", live);
    $("send").querySelector("use").setAttribute("href", live ? "#i-stop" : "#i-send");
    $("send").disabled = !live && $("prompt").value.trim() === "";
    $("more").hidden = talk.head === null;
    const last = pathTo(talk, talk.head).findLast((node) => node.stats?.total);
    const context = shown.models.find((x) => x.id === settings.model)?.context || 0;
    $("room").textContent = !last ? "" : context
        ? `${NUMBER.format(last.stats.total)} of ${NUMBER.format(context)} tokens` : plural(last.stats.total, "token", "tokens");
    showList();
}

function showList() {
    const items = listConversations().map(({ id, title }) => {
        const name = title || "Conversation";
        const more = iconButton("more", `Rename, export or delete \u201c${name}\u201d`, () => talkMenu(more, id));
        more.setAttribute("aria-haspopup", "menu");
        return el("li", { class: lives.has(id) ? "live" : null },
            el("button", { type: "button", class: "pick", dir: "auto", title: name,
                           "aria-current": id === shown.talk.id ? "true" : null,
                           on: { click: () => openTalk(id) } }, name), more);
    });
    const focused = [...$("list").querySelectorAll("button")].indexOf(document.activeElement);
    $("list").replaceChildren(...items);
    if (focused >= 0) {
        $("list").querySelectorAll("button")[focused]?.focus();
    }
}

async function makeAnswer(how) {
    const { talk } = shown;
    if (lives.has(talk.id)) {
        return;
    }
    say("Answering");
    const live = await answer(talk, how, () => {
        if (shown.talk === talk) {
            showTalk();
            holdEnd();
        }
        gauges.wake();
    });
    say(spoken(live.node));
    gauges.wake();
    showState();
    if (shown.talk === talk) {
        toEnd();
    }
}

/* ---- conversations ---- */

function openTalk(id) {
    const talk = lives.get(id)?.talk || loadConversation(id);
    closeSide();
    if (!talk) {
        notice("This conversation is gone.");
        showList();
        return;
    }
    keepDraft();
    shown.talk = talk;
    settleStale(talk);
    afterOpen();
}

function startNew() {
    keepDraft();
    shown.talk = newConversation(settings.system);
    closeSide();
    afterOpen();
}

function afterOpen() {
    shown.hold = true;
    history.replaceState(null, "", shown.talk.head === null ? location.pathname : "#" + shown.talk.id);
    $("prompt").value = readDraft();
    fitPrompt();
    showTalk();
    $("jump").hidden = true;
    if (!TOUCH.matches) {
        $("prompt").focus({ preventScroll: true });
    }
}

function talkMenu(button, id) {
    const talk = shown.talk.id === id ? shown.talk : lives.get(id)?.talk || loadConversation(id);
    if (!talk) {
        showList();
        return;
    }
    openMenu(button, [
        ["Rename", () => renameTalk(talk)],
        ["Export as Markdown", () => download(fileName(talk, ".md"), "text/markdown", exportMarkdown(talk))],
        ["Export as JSON", () => download(fileName(talk, ".json"), "application/json", JSON.stringify(talk, null, 1))],
        ["Delete", () => deleteTalk(talk)],
    ]);
}

async function renameTalk(talk) {
    const title = await ask({ title: "Rename", yes: "Rename", value: talk.title });
    if (title) {
        renameConversation(talk, title);
        showState();
    }
}

async function deleteTalk(talk) {
    const yes = await ask({ title: "Delete this conversation?", text: talk.title, yes: "Delete" });
    if (yes !== null) {
        dropLive(talk.id);
        removeConversation(talk.id);
        say("Deleted");
        if (shown.talk.id === talk.id) {
            startNew();
        }
        showList();
    }
}

function dropLive(id) {
    const live = lives.get(id);
    if (live) {
        live.removed = true;
        live.abort.abort();
    }
}

async function deleteAll() {
    $("settings").close();
    const yes = await ask({ title: "Delete all conversations?", text: "This cannot be undone.", yes: "Delete all" });
    if (yes !== null) {
        for (const { id } of listConversations()) {
            dropLive(id);
            removeConversation(id);
        }
        startNew();
    }
}

async function importFile(file) {
    try {
        const n = importConversations(await file.text());
        notice(n ? `${plural(n, "conversation", "conversations")} imported.` : "No conversation was found in this file.");
    } catch (error) {
        notice("This file holds no conversations.");
    }
    showList();
}

/* Another tab wrote or removed a conversation. */
function onStorage(event) {
    if (event.key === "ingot.settings") {
        settings = readSettings();
        applyTheme();
    } else if (event.key?.startsWith(LIST) || event.key === null) {
        showList();
    } else if (event.key?.startsWith(CHAT)) {
        takeFromTab(event.key.slice(CHAT.length), event.newValue === null);
    }
}

function takeFromTab(id, removed) {
    if (removed) {
        dropLive(id);
        if (shown.talk.id === id) {
            startNew();
            notice("This conversation was deleted in another tab.");
        }
        return;
    }
    const other = loadConversation(id);
    const talk = shown.talk.id === id ? shown.talk : null;
    if (!other || !talk) {
        return;
    }
    const before = pathTo(talk, talk.head).map((node) => `${node.id} ${node.rev}`);
    const follows = talk.head === null || pathTo(other, other.head).some((node) => node.id === talk.head);
    joinConversation(talk, other);
    if (follows && !lives.has(id)) {
        talk.head = other.head;
    }
    const after = pathTo(talk, talk.head).map((node) => `${node.id} ${node.rev}`);
    if (shown.views.length === after.length && shown.views.every((view, i) => view.node === talk.nodes[after[i].split(" ")[0]])) {
        shown.views.forEach((view, i) => before[i] !== after[i] && view !== lives.get(id)?.view && view.render());
        showState();
        toEnd();
    } else {
        showTalk();
    }
}

/* ---- the message box ---- */

function draftKey() {
    return "ingot.draft." + (shown.talk.head === null ? "new" : shown.talk.id);
}

function keepDraft() {
    try {
        sessionStorage.setItem(draftKey(), $("prompt").value);
    } catch (error) {
        return;
    }
}

function readDraft() {
    try {
        return sessionStorage.getItem(draftKey()) || "";
    } catch (error) {
        return "";
    }
}

function fitPrompt() {
    const box = $("prompt");
    box.style.height = "auto";
    box.style.height = Math.min(box.scrollHeight, innerHeight * 0.4) + "px";
    $("send").disabled = !lives.has(shown.talk.id) && box.value.trim() === "";
}

function send() {
    const text = $("prompt").value.trim();
    const { talk } = shown;
    if (!text || lives.has(talk.id)) {
        return;
    }
    $("prompt").value = "";
    keepDraft();
    fitPrompt();
    const node = addNode(talk, talk.head, "user", text);
    history.replaceState(null, "", "#" + talk.id);
    makeAnswer({ parent: node.id });
}

function onPromptKey(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !TOUCH.matches) {
        event.preventDefault();
        send();
    } else if (event.key === "ArrowUp" && $("prompt").value === "" && !lives.has(shown.talk.id)) {
        const view = shown.views.findLast((x) => x.node.role === "user");
        if (view) {
            event.preventDefault();
            view.edit();
        }
    }
}

function onKey(event) {
    const control = event.ctrlKey || event.metaKey;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName || "");
    if (document.querySelector("dialog[open]")) {
        return;
    }
    if (event.key === "Escape" && !$("side").inert && NARROW.matches) {
        closeSide();
    } else if (event.key === "Escape" && lives.has(shown.talk.id) && !event.defaultPrevented) {
        actions.stop();
    } else if (event.key === "/" && !typing && !control) {
        event.preventDefault();
        $("prompt").focus();
    } else if (control && event.shiftKey && event.key.toLowerCase() === "o") {
        event.preventDefault();
        startNew();
    } else if (control && event.key === ",") {
        event.preventDefault();
        openSettings();
    }
}

/* ---- the side, the settings, the server ---- */

function openSide() {
    $("side").inert = false;
    document.body.classList.add("side-open");
    $("side-open").setAttribute("aria-expanded", "true");
    $("shade").hidden = false;
    $("side-close").focus();
    gauges.wake();
}

function closeSide() {
    const was = document.body.classList.contains("side-open");
    document.body.classList.remove("side-open");
    $("shade").hidden = true;
    $("side-open").setAttribute("aria-expanded", "false");
    $("side").inert = NARROW.matches;
    if (was) {
        $("side-open").focus();
    }
}

function openSettings() {
    fillSettings(shown.talk, [
        ["Export all", () => download("ingot-conversations.json", "application/json", exportAll())],
        ["Import", () => $("import-file").click()],
        ["Delete all", deleteAll],
    ]);
    $("settings").returnValue = "";
    $("settings").showModal();
}

function onSettingsClosed() {
    if ($("settings").returnValue !== "save") {
        return;
    }
    takeSettings(shown.talk);
    if (shown.talk.head !== null) {
        keepTalk(shown.talk);
    }
    $("gauges").hidden = !settings.gauges;
    gauges.wake();
    findModels();
}

function showModels() {
    const { models } = shown;
    if (!models.some((x) => x.id === settings.model)) {
        settings.model = models[0]?.id || "";
    }
    const name = (id) => id.split("/").at(-1).replace(/\.gguf$/i, "");
    if (models.length > 1) {
        const select = el("select", { "aria-label": "Model", on: { change: (event) => {
            settings.model = event.target.value;
            saveSettings();
            showState();
        } } }, models.map((x) => el("option", { value: x.id }, name(x.id))));
        select.value = settings.model;
        $("model").replaceChildren(select);
    } else {
        $("model").replaceChildren(models.length ? name(models[0].id) : "");
        $("model").title = models[0]?.id || "";
    }
    showState();
}

async function findModels() {
    try {
        shown.models = await fetchModels();
        showModels();
        if (shown.offline) {
            notice("");
        }
        shown.offline = false;
    } catch (error) {
        if (error.kind === "key") {
            notice(`${error.message} Enter it in the settings.`, 15);
        } else if (!shown.offline) {
            notice(error.kind ? error.message : GONE, 3600);
        }
        shown.offline = error.kind !== "key";
        if (shown.offline) {
            setTimeout(findModels, document.hidden ? 15000 : 3000);
        }
    }
}

function start() {
    applyTheme();
    $("side").inert = NARROW.matches;
    $("keys").hidden = TOUCH.matches;
    NARROW.addEventListener("change", closeSide);
    $("ideas").append(...IDEAS.map((idea) => el("button", { type: "button", class: "idea",
        on: { click: () => { $("prompt").value = idea; fitPrompt(); $("prompt").focus(); } } }, idea)));
    const clicks = { new: startNew, theme: nextTheme, "settings-open": openSettings, "side-open": openSide,
                     "side-close": closeSide, shade: closeSide, jump: holdEnd, more: () => talkMenu($("more"), shown.talk.id),
                     "settings-reset": () => document.querySelectorAll("#settings .fields :is(input, textarea)")
                         .forEach((field) => { field.value = ""; field.setCustomValidity(""); }) };
    for (const [id, action] of Object.entries(clicks)) {
        $(id).addEventListener("click", action);
    }
    document.querySelectorAll("[data-close]").forEach((button) =>
        button.addEventListener("click", () => button.closest("dialog").close("")));
    $("settings").addEventListener("close", onSettingsClosed);
    $("import-file").addEventListener("change", (event) => {
        [...event.target.files].forEach(importFile);
        event.target.value = "";
        $("settings").close("");
    });
    $("composer").addEventListener("submit", (event) => {
        event.preventDefault();
        if (lives.has(shown.talk.id)) {
            actions.stop();
        } else {
            send();
        }
    });
    $("prompt").addEventListener("input", fitPrompt);
    $("prompt").addEventListener("keydown", onPromptKey);
    $("scroll").addEventListener("scroll", onScroll, { passive: true });
    document.addEventListener("keydown", onKey);
    document.addEventListener("visibilitychange", () => gauges.wake());
    addEventListener("storage", onStorage);
    addEventListener("pagehide", () => { keepDraft(); leaveLives(); });
    addEventListener("resize", toEnd);
    addEventListener("hashchange", () => {
        const id = location.hash.slice(1);
        if (id && id !== shown.talk.id && loadConversation(id)) {
            openTalk(id);
        }
    });
    const wanted = loadConversation(location.hash.slice(1));
    if (wanted) {
        shown.talk = wanted;
        settleStale(wanted);
    }
    afterOpen();
    findModels();
    gauges.wake();
}

start();
