/* Markdown, first half: a text into blocks. A block knows the lines that it was made of
 * (`source`), so that a repeated parse of a growing text can tell what did not change.
 *
 *   { kind, source, line, ... }   line: the index of its first line
 *   heading  level, text          paragraph  text
 *   code     language, text, open (no closing fence yet)
 *   quote    blocks               list       ordered, start, loose, items: [[block ...] ...]
 *   table    align, head, rows    rule       nothing more
 *
 * One pass over the lines; every pattern is anchored and takes time linear in its line. What is
 * nested deeper than DEEPEST is a paragraph. Left out on purpose: HTML (it is text), blocks by
 * indentation alone, reference links, headings by a line of dashes (a model means a rule). */

const DEEPEST = 12;

function fenceOf(line) {
    const found = /^( {0,3})(`{3,}|~{3,})(.*)$/.exec(line);
    if (!found || (found[2][0] === "`" && found[3].includes("`"))) {
        return null;
    }
    return { indent: found[1].length, mark: found[2], language: found[3].trim().split(/\s/)[0] };
}

function closesFence(line, fence) {
    const found = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line);
    return found !== null && found[1][0] === fence.mark[0] && found[1].length >= fence.mark.length;
}

function headingOf(line) {
    const found = /^ {0,3}(#{1,6})(?:[ \t]|$)/.exec(line);
    if (!found) {
        return null;
    }
    let text = line.slice(found[0].length).trim();
    let end = text.length;
    while (end > 0 && text[end - 1] === "#") {
        end--;
    }
    if (end === 0 || text[end - 1] === " ") {
        text = text.slice(0, end).trim();
    }
    return { level: found[1].length, text };
}

function isRule(line) {
    return /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/.test(line);
}

function isQuote(line) {
    return /^ {0,3}>/.test(line);
}

/* The marker of a list item: where it stands, where its text begins. */
function itemOf(line) {
    const found = /^( *)([-*+]|\d{1,9}[.)])( +|$)/.exec(line);
    if (!found || isRule(line)) {
        return null;
    }
    const gap = found[3].length;
    const mark = found[1].length + found[2].length;
    return {
        indent: found[1].length,
        content: mark + (gap >= 1 && gap <= 4 ? gap : 1),
        ordered: found[2].length > 1,
        start: parseInt(found[2], 10) || 0,
        kind: found[2][found[2].length - 1],
    };
}

function startsBlock(line) {
    return fenceOf(line) || headingOf(line) || isRule(line) || isQuote(line) || itemOf(line);
}

function indentOf(line) {
    return line.length - line.trimStart().length;
}

function isBlank(line) {
    return line.trim() === "";
}

/* A row of a table into cells; `\|` is no border. */
function cellsOf(line) {
    const cells = [""];
    const row = line.trim().replace(/^\|/, "");
    for (let i = 0; i < row.length; i++) {
        if (row[i] === "\\" && row[i + 1] === "|") {
            cells[cells.length - 1] += "|";
            i++;
        } else if (row[i] === "|") {
            cells.push("");
        } else {
            cells[cells.length - 1] += row[i];
        }
    }
    if (cells.length > 1 && cells[cells.length - 1].trim() === "") {
        cells.pop();
    }
    return cells.map((cell) => cell.trim());
}

/* The line under a table's head: the alignment of each column, or null. */
function alignmentOf(line) {
    if (line === undefined || !line.includes("-") || !/^[ \t|:-]+$/.test(line)) {
        return null;
    }
    const cells = cellsOf(line);
    if (!cells.every((cell) => /^:?-+:?$/.test(cell))) {
        return null;
    }
    return cells.map((cell) => (cell.endsWith(":") ? (cell[0] === ":" ? "center" : "right") : "left"));
}

function startsTable(lines, i) {
    const align = lines[i].includes("|") ? alignmentOf(lines[i + 1]) : null;
    return align !== null && align.length === cellsOf(lines[i]).length;
}

function readCode(lines, i) {
    const fence = fenceOf(lines[i]);
    const body = [];
    let open = true;
    for (i++; i < lines.length; i++) {
        if (closesFence(lines[i], fence)) {
            open = false;
            i++;
            break;
        }
        body.push(lines[i].slice(Math.min(fence.indent, indentOf(lines[i]))));
    }
    return [{ kind: "code", language: fence.language, text: body.join("\n"), open }, i];
}

function readQuote(lines, i, depth) {
    const inner = [];
    for (; i < lines.length; i++) {
        if (isQuote(lines[i])) {
            inner.push(lines[i].replace(/^ {0,3}> ?/, ""));
        } else if (isBlank(lines[i]) || startsBlock(lines[i]) || isBlank(inner[inner.length - 1])) {
            break;
        } else {
            inner.push(lines[i]);
        }
    }
    return [{ kind: "quote", blocks: parseLines(inner, depth + 1) }, i];
}

/* The lines of one item, freed of its indent. A nested marker is taken from two columns on,
 * as models write it, even where the text of "10. " would begin later. */
function readItem(lines, i, item) {
    const inner = [lines[i].slice(item.content)];
    let gap = false;
    let fence = fenceOf(inner[0]);
    for (i++; i < lines.length; i++) {
        const line = lines[i];
        if (isBlank(line)) {
            inner.push("");
            gap = true;
            continue;
        }
        const indent = indentOf(line);
        const inside = indent >= item.content || (fence === null && indent >= item.indent + 2 && itemOf(line));
        const lazy = !inside && !gap && fence === null && !startsBlock(line);
        if (!inside && !lazy) {
            break;
        }
        const own = line.slice(Math.min(item.content, indent));
        if (fence !== null && closesFence(own, fence)) {
            fence = null;
        } else if (fence === null) {
            fence = fenceOf(own);
        }
        inner.push(own);
        gap = false;
    }
    let loose = false;
    while (inner.length > 1 && inner[inner.length - 1] === "") {
        inner.pop();
        loose = true;
    }
    return { inner, end: i, trailing: loose };
}

function readList(lines, i, depth) {
    const first = itemOf(lines[i]);
    const list = { kind: "list", ordered: first.ordered, start: first.start, loose: false, items: [] };
    while (i < lines.length) {
        const item = itemOf(lines[i]);
        if (!item || item.kind !== first.kind || item.ordered !== first.ordered) {
            break;
        }
        const { inner, end, trailing } = readItem(lines, i, item);
        const next = end < lines.length ? itemOf(lines[end]) : null;
        list.loose ||= trailing && next !== null && next.kind === first.kind;
        list.items.push(parseLines(inner, depth + 1));
        i = end;
    }
    return [list, i];
}

function readTable(lines, i, align) {
    const head = cellsOf(lines[i]);
    const rows = [];
    for (i += 2; i < lines.length; i++) {
        if (isBlank(lines[i]) || !lines[i].includes("|")) {
            break;
        }
        rows.push(cellsOf(lines[i]).slice(0, head.length));
    }
    return [{ kind: "table", align, head, rows }, i];
}

function readParagraph(lines, i) {
    const from = i;
    for (i++; i < lines.length; i++) {
        if (/^ {0,3}={3,}[ \t]*$/.test(lines[i])) {
            const text = lines.slice(from, i).join("\n").trim();
            return [{ kind: "heading", level: 1, text }, i + 1];
        }
        const item = itemOf(lines[i]);
        const plainNumber = item !== null && item.ordered && item.start !== 1;
        if (isBlank(lines[i]) || (startsBlock(lines[i]) && !plainNumber) || startsTable(lines, i)) {
            break;
        }
    }
    const text = lines.slice(from, i).map((line) => line.trim()).join("\n");
    return [{ kind: "paragraph", text }, i];
}

function readBlock(lines, i, depth) {
    const line = lines[i];
    if (depth >= DEEPEST) {
        return [{ kind: "paragraph", text: lines.slice(i).join("\n") }, lines.length];
    }
    if (fenceOf(line)) {
        return readCode(lines, i);
    }
    const heading = headingOf(line);
    if (heading) {
        return [{ kind: "heading", ...heading }, i + 1];
    }
    if (isRule(line)) {
        return [{ kind: "rule" }, i + 1];
    }
    if (isQuote(line)) {
        return readQuote(lines, i, depth);
    }
    if (itemOf(line)) {
        return readList(lines, i, depth);
    }
    if (startsTable(lines, i)) {
        return readTable(lines, i, alignmentOf(lines[i + 1]));
    }
    return readParagraph(lines, i);
}

function parseLines(lines, depth) {
    const blocks = [];
    for (let i = 0; i < lines.length;) {
        if (isBlank(lines[i])) {
            i++;
            continue;
        }
        const [block, end] = readBlock(lines, i, depth);
        block.line = i;
        block.source = lines.slice(i, end).join("\n");
        blocks.push(block);
        i = end;
    }
    return blocks;
}

/* Tabs in front of a line are four columns, as everywhere in Markdown. */
function linesOf(text) {
    return text.split("\n").map((line) => {
        const bare = line.endsWith("\r") ? line.slice(0, -1) : line;
        return /^ *\t/.test(bare) ? bare.replace(/^[ \t]+/, (x) => x.replaceAll("\t", "    ")) : bare;
    });
}

function parseBlocks(text) {
    return parseLines(linesOf(text), 0);
}
