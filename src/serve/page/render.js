/* A growing Markdown text on the page.
 *
 *     text     |  blocks that are finished  |  the last block  |
 *     page     |  left alone                |  patched         |
 *
 * update(text) parses from the beginning of the last block on, since a block that has another
 * behind it cannot change, and brings the page to the new blocks: what has the same source
 * stays (so does a selection in it), lists and quotes are compared part by part, an open code
 * block gets its new characters appended, a table its new rows. */

const HIGHLIGHT_LIMIT = 60000;
const WORDS = new Set(("abstract and as async auto await bool boolean break case catch char class "
    + "const constexpr continue def default del delete do double elif else end enum except export "
    + "extends extern false final finally float fn for foreach from func function global goto if "
    + "impl implements import in include inline int interface is lambda let local long loop match "
    + "mod move mut namespace new nil none not null operator or override package pass private "
    + "protected pub public raise ref return self short signed sizeof static struct super switch "
    + "template then this throw trait true try type typedef typename typeof union unsafe unsigned "
    + "use using var virtual void volatile where while with yield select insert update set values "
    + "create table join left right inner outer on group order by limit having distinct into "
    + "None True False NULL echo fi done esac").split(" "));
const PLAIN = new Set(["", "text", "txt", "plain", "plaintext", "markdown", "md", "output", "log"]);

/* Comments, strings, numbers and words, in whatever language: a hint of colour, no grammar. */
function highlight(place, text, language) {
    const name = language.toLowerCase();
    if (PLAIN.has(name) || text.length > HIGHLIGHT_LIMIT) {
        return;
    }
    const hash = /^(py|python|sh|bash|shell|zsh|console|rb|ruby|yaml|yml|toml|ini|r|perl|make|makefile|dockerfile|cmake|elixir|julia)$/.test(name);
    const dashes = /^(sql|lua|haskell|hs|ada)$/.test(name);
    const comment = hash ? "#[^\\n]*" : dashes ? "--[^\\n]*" : "//[^\\n]*|/\\*[^]*?(?:\\*/|$)|<!--[^]*?(?:-->|$)";
    const pattern = new RegExp(`(${comment})|("(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?|\`[^\`]*\`?)`
        + "|(\\b\\d[\\w.]*)|([A-Za-z_$][\\w$]*)", "gi");
    const nodes = [];
    let from = 0;
    for (const found of text.matchAll(pattern)) {
        const kind = found[1] ? "comment" : found[2] ? "string" : found[3] ? "number"
            : WORDS.has(found[4]) || (dashes && WORDS.has(found[4].toLowerCase())) ? "word" : null;
        if (kind) {
            nodes.push(text.slice(from, found.index), el("span", { class: "hl-" + kind }, found[0]));
            from = found.index + found[0].length;
        }
    }
    nodes.push(text.slice(from));
    place.replaceChildren(...nodes);
}

/* The direction that a text's first letter asks for; null without a letter. dir="auto" would be
 * the same, but costs a walk over all of an element's text at each change in it. */
function directionOf(text) {
    const letter = /\p{L}/u.exec(text);
    if (!letter) {
        return null;
    }
    return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]|[\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u.test(letter[0])
        ? "rtl" : "ltr";
}

/* An element with the nodes of a text in it. */
function inlineElement(tag, attributes, text, growing) {
    const node = el(tag, { dir: directionOf(text), ...attributes });
    node.append(inlineNodes(text, growing));
    return node;
}

function makeCode(block) {
    const text = document.createTextNode(block.text);
    const code = el("code", { dir: "ltr" });
    code.append(text);
    const copy = iconButton("copy", "Copy the code", () => copyFrom(copy, code.textContent));
    const node = el("div", { class: "code" },
        el("div", { class: "code-head" }, el("span", {}, block.language), copy),
        el("pre", { tabindex: "0", role: "region", "aria-label": (block.language || "text") + " code" }, code));
    const made = { block, node, text, code };
    finishCode(made);
    return made;
}

function finishCode(made) {
    if (!made.block.open) {
        highlight(made.code, made.block.text, made.block.language);
    }
}

function growCode(made, block) {
    const old = made.block.text;
    if (block.language !== made.block.language || !made.block.open) {
        return false;
    }
    if (block.text.startsWith(old)) {
        made.text.appendData(block.text.slice(old.length));
    } else {
        made.text.data = block.text;
    }
    made.block = block;
    finishCode(made);
    return true;
}

function rowNode(cells, tag, align) {
    return el("tr", {}, align.map((side, i) =>
        inlineElement(tag, { class: side, scope: tag === "th" ? "col" : null }, cells[i] || "")));
}

function makeTable(block) {
    const body = el("tbody", {}, block.rows.map((row) => rowNode(row, "td", block.align)));
    const node = el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table",
                             dir: directionOf(block.source) },
        el("table", {}, el("thead", {}, rowNode(block.head, "th", block.align)), body));
    return { block, node, body };
}

function growTable(made, block) {
    const old = made.block;
    if (old.align.join() !== block.align.join() || old.head.join("|") !== block.head.join("|")) {
        return false;
    }
    for (let i = Math.max(0, old.rows.length - 1); i < block.rows.length; i++) {
        const row = rowNode(block.rows[i], "td", block.align);
        if (made.body.rows[i]) {
            made.body.rows[i].replaceWith(row);
        } else {
            made.body.append(row);
        }
    }
    made.block = block;
    return true;
}

function makeList(block, growing) {
    const node = el(block.ordered ? "ol" : "ul", { start: block.ordered ? block.start : null, dir: directionOf(block.source) });
    const made = { block, node, items: [] };
    growList(made, block, growing);
    return made;
}

/* "[x] done" at the beginning of an item is a box. */
function taskOf(blocks) {
    const first = blocks[0];
    const found = first && first.kind === "paragraph" ? /^\[([ xX])\] /.exec(first.text) : null;
    if (found) {
        first.text = first.text.slice(4);
    }
    return found ? (found[1] === " " ? "todo" : "done") : null;
}

function growList(made, block, growing) {
    if (made.block.ordered !== block.ordered) {
        return false;
    }
    made.block = block;
    if (block.loose) {
        made.node.className = "loose";
    }
    block.items.forEach((blocks, i) => {
        const task = taskOf(blocks);
        if (!made.items[i]) {
            const item = { node: el("li"), kids: [] };
            made.items.push(item);
            made.node.append(item.node);
        }
        const item = made.items[i];
        if (task) {
            item.node.className = "task " + task;
            item.node.setAttribute("aria-label", task === "done" ? "done" : "to do");
        }
        item.kids = patch(item.node, item.kids, blocks, growing && i === block.items.length - 1);
    });
    made.items.splice(block.items.length).forEach((item) => item.node.remove());
    return true;
}

function makeBlock(block, growing) {
    switch (block.kind) {
    case "heading":
        return { block, node: inlineElement("h" + Math.min(6, block.level + 2), { class: "h" + block.level }, block.text, growing) };
    case "code": return makeCode(block);
    case "rule": return { block, node: el("hr") };
    case "table": return makeTable(block);
    case "list": return makeList(block, growing);
    case "quote": {
        const node = el("blockquote", { dir: directionOf(block.source) });
        return { block, node, kids: patch(node, [], block.blocks, growing) };
    }
    default: return { block, node: inlineElement("p", {}, block.text, growing) };
    }
}

/* Bring `made` to `block` in place; false when it has to be made anew. */
function growBlock(made, block, growing) {
    if (made.block.kind !== block.kind) {
        return false;
    }
    if (["list", "quote", "table"].includes(block.kind) && !made.node.hasAttribute("dir")) {
        const direction = directionOf(block.source);
        direction && made.node.setAttribute("dir", direction);
    }
    switch (block.kind) {
    case "code": return growCode(made, block);
    case "table": return growTable(made, block);
    case "list": return growList(made, block, growing);
    case "quote":
        made.kids = patch(made.node, made.kids, block.blocks, growing);
        made.block = block;
        return true;
    default: return false;
    }
}

function isSame(made, block, growing) {
    return made.block.kind === block.kind && made.block.source === block.source
        && made.block.open === block.open && made.growing === growing;
}

/* Bring the children of `parent`, made from `kids`, to `blocks`. */
function patch(parent, kids, blocks, growing) {
    const result = blocks.map((block, i) => {
        const last = growing && i === blocks.length - 1;
        let made = kids[i];
        if (made && isSame(made, block, last)) {
            return made;
        }
        if (!made || !growBlock(made, block, last)) {
            const fresh = makeBlock(block, last);
            if (made) {
                made.node.replaceWith(fresh.node);
            } else {
                parent.append(fresh.node);
            }
            made = fresh;
        }
        made.growing = last;
        return made;
    });
    kids.slice(blocks.length).forEach((made) => made.node.remove());
    return result;
}

class MarkdownView {
    constructor(node) {
        this.node = node;
        this.text = "";
        this.kids = [];
        this.closed = 0;   /* blocks that cannot change any more */
        this.openFrom = 0; /* where the first that can begins in the text */
    }

    /* `growing`: more will come. */
    update(text, growing) {
        if (!text.startsWith(this.text) || this.openFrom > text.length) {
            this.closed = 0;
            this.openFrom = 0;
        }
        this.text = text;
        const open = text.slice(this.openFrom);
        const blocks = parseBlocks(open);
        const kept = this.kids.slice(0, this.closed);
        const rest = patch(this.node, this.kids.slice(this.closed), blocks, growing);
        this.kids = kept.concat(rest);
        if (blocks.length > 1) {
            let line = blocks.at(-1).line;
            let from = 0;
            for (; line > 0; line--) {
                from = open.indexOf("\n", from) + 1;
            }
            this.openFrom += from;
            this.closed += blocks.length - 1;
        }
    }
}
