/* Conversations, kept in the browser's local storage.
 *
 * A conversation is a tree, since an edited message or a second answer begins another branch:
 *
 *   { id, title, named, created, updated, system, head, nodes: { id: node } }
 *   node: { id, parent (id or null), role, content, reasoning, state, finish, error, stats,
 *           created, rev }
 *   state: "done", "streaming" (with `beat`, a time), "stopped", "cut", "failed"
 *
 * What is shown is the path from a root to `head`. Nodes are never removed, so two tabs that
 * both write are joined by taking every node of either, the one with the higher `rev` where
 * both have it. Two keys for each conversation: `ingot.list.ID` (title and time, for the list)
 * and `ingot.chat.ID`; there is no index that two tabs could overwrite.
 *
 * Where storage is refused or full the conversations live as long as the page; `onFull` tells. */

const LIST = "ingot.list.";
const CHAT = "ingot.chat.";

function newId() {
    const bytes = crypto.getRandomValues(new Uint8Array(9));
    return [...bytes].map((x) => x.toString(36).padStart(2, "0")).join("");
}

/* localStorage behind a mask: it may be missing, forbidden or full. */
const storage = {
    lost: new Map(), /* what could not be written */
    read(key) {
        if (this.lost.has(key)) {
            return this.lost.get(key);
        }
        try {
            return localStorage.getItem(key);
        } catch (error) {
            return null;
        }
    },
    write(key, value) {
        try {
            localStorage.setItem(key, value);
            this.lost.delete(key);
            return true;
        } catch (error) {
            this.lost.set(key, value);
            return false;
        }
    },
    remove(key) {
        this.lost.delete(key);
        try {
            localStorage.removeItem(key);
        } catch (error) {
            return;
        }
    },
    keys(prefix) {
        let own = [];
        try {
            own = Object.keys(localStorage);
        } catch (error) {
            own = [];
        }
        return [...new Set([...own, ...this.lost.keys()])].filter((key) => key.startsWith(prefix));
    },
};

function readJson(key) {
    try {
        return JSON.parse(storage.read(key));
    } catch (error) {
        return null;
    }
}

/* Whether a value from storage or from a file is a conversation; every field that is read
 * elsewhere is checked here. */
function isConversation(value) {
    const text = (x) => typeof x === "string";
    return value !== null && typeof value === "object" && /^[\w-]{1,64}$/.test(value.id)
        && text(value.title) && Number.isFinite(value.updated) && value.nodes !== null
        && typeof value.nodes === "object"
        && Object.entries(value.nodes).every(([id, node]) => node !== null && typeof node === "object"
            && node.id === id && text(node.content) && ["user", "assistant"].includes(node.role)
            && (node.parent === null || text(node.parent)));
}

function newConversation(system) {
    const now = Date.now();
    return { id: newId(), title: "", named: 0, created: now, updated: now, system: system || "",
             head: null, nodes: {} };
}

function addNode(talk, parent, role, content) {
    const node = { id: newId(), parent, role, content, reasoning: "", state: "done", finish: null,
                   error: null, stats: null, created: Date.now(), rev: 1 };
    talk.nodes[node.id] = node;
    talk.head = node.id;
    if (!talk.title && role === "user") {
        talk.title = content.trim().split("\n")[0].slice(0, 80);
    }
    return node;
}

/* From the first message to the node; a broken or circular file ends the walk. */
function pathTo(talk, id) {
    const path = [];
    const seen = new Set();
    for (let node = talk.nodes[id]; node && !seen.has(node.id); node = talk.nodes[node.parent]) {
        seen.add(node.id);
        path.unshift(node);
    }
    return path;
}

function childrenOf(talk, parent) {
    return Object.values(talk.nodes).filter((node) => node.parent === parent)
        .sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
}

/* The newest end of the branch that begins with the node. */
function tipOf(talk, id) {
    const seen = new Set();
    for (let kids = childrenOf(talk, id); kids.length && !seen.has(id); kids = childrenOf(talk, id)) {
        seen.add(id);
        id = kids.at(-1).id;
    }
    return id;
}

function listConversations() {
    return storage.keys(LIST).map((key) => ({ id: key.slice(LIST.length), ...readJson(key) }))
        .filter((entry) => Number.isFinite(entry.updated))
        .sort((a, b) => b.updated - a.updated);
}

function loadConversation(id) {
    const talk = readJson(CHAT + id);
    return isConversation(talk) && talk.id === id ? talk : null;
}

/* Take from `other`, another tab's state of the same conversation, what is newer. */
function joinConversation(talk, other) {
    for (const [id, node] of Object.entries(other.nodes)) {
        const mine = talk.nodes[id];
        if (!mine) {
            talk.nodes[id] = node;
        } else if ((node.rev || 0) > (mine.rev || 0)) {
            Object.assign(mine, node);
        }
    }
    if ((other.named || 0) > (talk.named || 0)) {
        talk.title = other.title;
        talk.named = other.named;
    }
    return talk;
}

/* False when the browser did not take it. */
function saveConversation(talk) {
    const stored = loadConversation(talk.id);
    if (stored) {
        joinConversation(talk, stored);
    }
    talk.updated = Date.now();
    const body = storage.write(CHAT + talk.id, JSON.stringify(talk));
    const entry = storage.write(LIST + talk.id, JSON.stringify({ title: talk.title, updated: talk.updated }));
    return body && entry;
}

function removeConversation(id) {
    storage.remove(LIST + id);
    storage.remove(CHAT + id);
}

function renameConversation(talk, title) {
    talk.title = title;
    talk.named = Date.now();
    return saveConversation(talk);
}

/* The path that is shown, as a Markdown page. */
function exportMarkdown(talk) {
    const parts = [`# ${talk.title || "Conversation"}`];
    if (talk.system) {
        parts.push(`> ${talk.system.replaceAll("\n", "\n> ")}`);
    }
    for (const node of pathTo(talk, talk.head)) {
        parts.push(`## ${node.role === "user" ? "You" : "Ingot"}`, node.content);
    }
    return parts.join("\n\n") + "\n";
}

/* Reads what exportAll() wrote; gives the number of conversations taken. One that is here
 * already is joined. */
function importConversations(text) {
    const value = JSON.parse(text);
    const talks = (Array.isArray(value.conversations) ? value.conversations : [value]).filter(isConversation);
    for (const talk of talks) {
        talk.system = typeof talk.system === "string" ? talk.system : "";
        saveConversation(talk);
    }
    return talks.length;
}

function exportAll() {
    const talks = listConversations().map((entry) => loadConversation(entry.id)).filter((x) => x);
    return JSON.stringify({ ingot: 1, conversations: talks }, null, 1);
}

function fileName(talk, ending) {
    const name = (talk.title || "conversation").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
    return name.replace(/^-+|-+$/g, "") + ending;
}
