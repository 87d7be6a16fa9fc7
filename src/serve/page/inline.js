/* Markdown, second half: the text of a paragraph into nodes.
 *
 * One scan from left to right, after CommonMark's delimiter algorithm: a run of * _ or ~ that
 * can close looks back for its opener at once, and both note the tag; a second walk over the
 * pieces builds the tree. The look-back is bounded by where it last found nothing, and a run of
 * backticks that has no partner is remembered, so that no text takes quadratic time. Elements
 * nest at most DEEPEST_INLINE deep.
 *
 * `growing` says that the text is still being written: what is open at its end (bold, a code
 * span) is shown as if it were closed there, so that no bare marks flicker. */

const DEEPEST_INLINE = 12;
const LONGEST_URL = 2000;
const PUNCTUATION = /[!-/:-@[-`{-~\p{P}\p{S}]/u;
const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": "\"", "&#39;": "'", "&nbsp;": "\u00a0" };

/* Only these lead anywhere; javascript:, data:, relative ones and all others do not. */
function safeUrl(text) {
    try {
        const url = new URL(text);
        return ["https:", "http:", "mailto:"].includes(url.protocol) ? url.href : null;
    } catch (error) {
        return null;
    }
}

function linkElement(href) {
    return el("a", { href, title: href, target: "_blank", rel: "noopener noreferrer nofollow" });
}

class InlineParser {
    constructor(text, growing) {
        this.text = text;
        this.growing = growing;
        this.at = 0;
        this.pieces = []; /* strings, nodes, and marks { before: [tag], text, after: [tag] } */
        this.plain = "";
        this.runs = [];     /* open runs of * _ ~, in order */
        this.brackets = []; /* open [ */
        this.nothingBelow = new Map();
        this.noTicks = new Map(); /* what was looked for in vain, to the end of the text */
        this.lastParenthesis = text.lastIndexOf(")");
    }

    flush() {
        if (this.plain) {
            this.pieces.push(this.plain);
            this.plain = "";
        }
    }

    push(piece) {
        this.flush();
        this.pieces.push(piece);
    }

    parse() {
        const special = /[\\`*_~[\]!<&\n]|https?:\/\//g;
        while (this.at < this.text.length) {
            special.lastIndex = this.at;
            const found = special.exec(this.text);
            const to = found ? found.index : this.text.length;
            this.plain += this.text.slice(this.at, to);
            this.at = to;
            if (found && !this.special(found[0])) {
                this.plain += found[0][0];
                this.at++;
            }
        }
        this.flush();
        if (this.growing) {
            this.closeOpen();
        }
        return this.build();
    }

    /* True when the character was used up. */
    special(mark) {
        switch (mark[0]) {
        case "\\": return this.escape();
        case "`": return this.code();
        case "*": case "_": case "~": return this.run();
        case "[": return this.openBracket(1, false);
        case "!": return this.text[this.at + 1] === "[" && this.openBracket(2, true);
        case "]": return this.closeBracket();
        case "<": return this.angle();
        case "&": return this.entity();
        case "\n": this.push(el("br")); this.at++; return true;
        default: return this.address();
        }
    }

    escape() {
        const next = this.text[this.at + 1];
        if (next === "(" || next === "[") {
            return this.math(this.text.slice(this.at, this.at + 2), next === "(" ? "\\)" : "\\]");
        }
        if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) {
            return false;
        }
        this.plain += next;
        this.at += 2;
        return true;
    }

    /* TeX is shown as it stands, and kept from being read as Markdown. */
    math(open, close) {
        if (this.noTicks.has(close)) {
            this.plain += open;
            this.at += 2;
            return true;
        }
        const end = this.text.indexOf(close, this.at + 2);
        if (end < 0) {
            this.noTicks.set(close, true);
            return this.math(open, close);
        }
        this.push(el("code", { class: "tex", dir: "ltr" }, this.text.slice(this.at + 2, end).trim()));
        this.at = end + 2;
        return true;
    }

    code() {
        let n = 1;
        while (this.text[this.at + n] === "`") {
            n++;
        }
        const from = this.at + n;
        let end = this.noTicks.has(n) ? -1 : this.ticks(n, from);
        if (end < 0) {
            this.noTicks.set(n, true);
            if (!this.growing || n > 1 || from === this.text.length) {
                this.plain += "`".repeat(n);
                this.at = from;
                return true;
            }
            end = this.text.length;
        }
        let inner = this.text.slice(from, end).replaceAll("\n", " ");
        if (inner.length > 2 && inner[0] === " " && inner.at(-1) === " " && inner.trim()) {
            inner = inner.slice(1, -1);
        }
        this.push(el("code", {}, inner));
        this.at = end + n;
        return true;
    }

    ticks(n, from) {
        const run = /`+/g;
        run.lastIndex = from;
        for (let found = run.exec(this.text); found; found = run.exec(this.text)) {
            if (found[0].length === n) {
                return found.index;
            }
        }
        return -1;
    }

    run() {
        const mark = this.text[this.at];
        let n = 1;
        while (this.text[this.at + n] === mark) {
            n++;
        }
        if (mark === "~" && n !== 2) {
            this.plain += mark.repeat(n);
            this.at += n;
            return true;
        }
        const before = this.text[this.at - 1] || " ";
        const after = this.text[this.at + n] || " ";
        const spaceBefore = /\s/.test(before);
        const spaceAfter = /\s/.test(after);
        const signBefore = PUNCTUATION.test(before);
        const signAfter = PUNCTUATION.test(after);
        const left = !spaceAfter && (!signAfter || spaceBefore || signBefore);
        const right = !spaceBefore && (!signBefore || spaceAfter || signAfter);
        const inWord = mark === "_";
        const run = {
            mark, n, total: n, place: this.pieces.length, before: [], after: [],
            opens: left && (!inWord || !right || signBefore),
            closes: right && (!inWord || !left || signAfter),
        };
        this.at += n;
        this.push(run);
        run.place = this.pieces.length;
        if (run.closes) {
            this.close(run);
        }
        if (run.opens && run.n > 0) {
            this.runs.push(run);
        }
        return true;
    }

    close(run) {
        while (run.n > 0) {
            const key = run.mark + run.opens + (run.total % 3);
            const floor = this.nothingBelow.get(key) || 0;
            let i = this.runs.length - 1;
            while (i >= 0 && this.runs[i].place > floor && !this.pairs(this.runs[i], run)) {
                i--;
            }
            if (i < 0 || this.runs[i].place <= floor) {
                this.nothingBelow.set(key, this.runs.length ? this.runs.at(-1).place : 0);
                return;
            }
            const opener = this.runs[i];
            const both = Math.min(opener.n, run.n) >= 2 ? 2 : 1;
            const tag = run.mark === "~" ? "del" : both === 2 ? "strong" : "em";
            opener.after.unshift(tag);
            run.before.push(tag);
            opener.n -= both;
            run.n -= both;
            this.runs.length = opener.n > 0 ? i + 1 : i;
            while (this.brackets.length && this.brackets.at(-1).place > opener.place) {
                this.brackets.pop();
            }
        }
    }

    pairs(opener, run) {
        if (opener.mark !== run.mark) {
            return false;
        }
        const odd = (opener.closes || run.opens) && (opener.total + run.total) % 3 === 0
            && (opener.total % 3 !== 0 || run.total % 3 !== 0);
        return !odd;
    }

    openBracket(length, image) {
        const bracket = { image, text: image ? "![" : "[", before: [], after: [], place: 0 };
        this.at += length;
        this.push(bracket);
        bracket.place = this.pieces.length;
        this.brackets.push(bracket);
        return true;
    }

    closeBracket() {
        const bracket = this.brackets.pop();
        const target = bracket ? this.target(this.at + 1) : null;
        if (!target) {
            return false;
        }
        const href = safeUrl(target.url);
        bracket.text = bracket.image ? "\ud83d\uddbc " : "";
        bracket.after.push({ href });
        this.push({ before: [{ href }], after: [], text: "" });
        this.at = target.end;
        while (this.runs.length && this.runs.at(-1).place > bracket.place) {
            this.runs.pop();
        }
        this.brackets.length = 0; /* no link within a link */
        return true;
    }

    /* `(url "title")` behind a closing bracket; the title is dropped. */
    target(from) {
        if (this.text[from] !== "(" || from > this.lastParenthesis) {
            return null;
        }
        const limit = Math.min(this.text.length, from + LONGEST_URL);
        let depth = 0;
        for (let i = from; i < limit; i++) {
            const c = this.text[i];
            if (c === "\n" && this.text[i + 1] === "\n") {
                return null;
            }
            depth += c === "(" ? 1 : c === ")" ? -1 : 0;
            if (depth === 0) {
                const inner = this.text.slice(from + 1, i).trim();
                const url = inner.startsWith("<") ? inner.slice(1).split(">")[0] : inner.split(/\s/)[0];
                return { url, end: i + 1 };
            }
        }
        return null;
    }

    angle() {
        const rest = this.text.slice(this.at, this.at + LONGEST_URL);
        const line = /^<br ?\/?>/i.exec(rest);
        const link = line ? null : /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(rest);
        const href = link ? safeUrl(link[1]) : null;
        if (line) {
            this.push(el("br"));
        } else if (href) {
            const a = linkElement(href);
            a.append(link[1]);
            this.push(a);
        } else {
            return false;
        }
        this.at += (line || link)[0].length;
        return true;
    }

    entity() {
        const found = /^&(?:amp|lt|gt|quot|#39|nbsp);/.exec(this.text.slice(this.at, this.at + 7));
        if (!found) {
            return false;
        }
        this.plain += ENTITIES[found[0]];
        this.at += found[0].length;
        return true;
    }

    /* A bare address; what ends a sentence is not a part of it. */
    address() {
        if (this.brackets.length || /[\p{L}\p{N}]/u.test(this.text[this.at - 1] || "")) {
            return false;
        }
        const found = /^[^\s<>"'`*\\]+/.exec(this.text.slice(this.at, this.at + LONGEST_URL));
        let url = found[0].replace(/[.,;:!?\])}_~]+$/, (tail) => {
            const open = found[0].includes("(") && tail[0] === ")";
            return open ? ")" : "";
        });
        const href = safeUrl(url);
        if (!href) {
            return false;
        }
        const a = linkElement(href);
        a.append(url);
        this.push(a);
        this.at += url.length;
        return true;
    }

    closeOpen() {
        for (const run of this.runs.filter((x) => x.mark !== "_").slice(-3)) {
            if (run.place < this.pieces.length) {
                run.after.unshift(run.mark === "~" ? "del" : run.n >= 2 ? "strong" : "em");
                run.n = 0;
            }
        }
    }

    build() {
        const root = document.createDocumentFragment();
        const stack = [root];
        const enter = (tag) => {
            const node = typeof tag === "string" ? el(tag) : tag.href ? linkElement(tag.href) : el("span");
            if (stack.length <= DEEPEST_INLINE) {
                stack.at(-1).append(node);
                stack.push(node);
            } else {
                stack.push(stack.at(-1)); /* too deep: its text goes to its parent */
            }
        };
        for (const piece of this.pieces) {
            if (typeof piece === "string" || piece instanceof Node) {
                stack.at(-1).append(piece);
                continue;
            }
            for (let i = 0; i < piece.before.length && stack.length > 1; i++) {
                stack.pop();
            }
            const text = piece.mark ? piece.mark.repeat(piece.n) : piece.text;
            if (text) {
                stack.at(-1).append(text);
            }
            piece.after.forEach(enter);
        }
        return root;
    }
}

function inlineNodes(text, growing = false) {
    return new InlineParser(text, growing).parse();
}
