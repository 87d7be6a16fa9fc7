/* Building and changing the page. Everything that is shown is made by el() and text nodes:
 * no string ever becomes markup, so nobody's text can become markup either. The policy of the
 * page has the browser refuse innerHTML and its like as well (require-trusted-types-for). */

const $ = (id) => document.getElementById(id);

/* An element: attributes by name, `on` for listeners, then children (strings are text;
 * null and false are left out). */
function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (name === "on") {
            for (const [event, listener] of Object.entries(value)) {
                node.addEventListener(event, listener);
            }
        } else if (value === true) {
            node.setAttribute(name, "");
        } else if (value !== false && value !== null && value !== undefined) {
            node.setAttribute(name, value);
        }
    }
    for (const child of children.flat()) {
        if (child !== null && child !== false && child !== undefined) {
            node.append(child);
        }
    }
    return node;
}

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
}

function icon(name) {
    return svg("svg", { "aria-hidden": "true" }, svg("use", { href: "#i-" + name }));
}

/* A button that is an icon alone; the label is its name and its tooltip. */
function iconButton(name, label, action) {
    return el("button", { type: "button", class: "icon", "aria-label": label, title: label,
                          on: { click: action } }, icon(name));
}

/* Tell a screen reader, once. */
function say(text) {
    const place = $("say");
    place.textContent = "";
    setTimeout(() => { place.textContent = text; }, 50);
}

let noticeTimer = 0;

/* A sentence above the message box; it leaves by itself. */
function notice(text, seconds = 8) {
    clearTimeout(noticeTimer);
    $("notice").textContent = text;
    if (text) {
        noticeTimer = setTimeout(() => notice(""), seconds * 1000);
    }
}

/* The clipboard of browsers is for secure origins only; a page from http://192.168.x.y copies
 * by the older way. */
async function copyText(text) {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch (error) {
        const area = el("textarea", { class: "hidden", "aria-hidden": "true" });
        const focused = document.activeElement;
        area.value = text;
        (document.querySelector("dialog[open]") || document.body).append(area);
        area.select();
        const done = document.execCommand("copy");
        area.remove();
        focused?.focus({ preventScroll: true });
        return done;
    }
}

/* Copy, and say so on the button itself. */
async function copyFrom(button, text) {
    const done = await copyText(text);
    const use = button.querySelector("use");
    use?.setAttribute("href", done ? "#i-check" : "#i-close");
    say(done ? "Copied" : "The browser did not allow copying");
    setTimeout(() => use?.setAttribute("href", "#i-copy"), 1500);
}

function download(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const NUMBER = new Intl.NumberFormat();

function plural(n, one, many) {
    return `${NUMBER.format(n)} ${n === 1 ? one : many}`;
}

/* Ask in the page's own dialog: resolves to null when cancelled, else to the text of the
 * field ("" where there is none). */
function ask({ title, text, yes, value }) {
    const dialog = $("ask");
    $("ask-title").textContent = title;
    $("ask-text").textContent = text || "";
    $("ask-text").hidden = !text;
    $("ask-yes").textContent = yes;
    $("ask-field").hidden = value === undefined;
    $("ask-input").value = value || "";
    dialog.returnValue = "";
    dialog.showModal();
    if (value !== undefined) {
        $("ask-input").select();
    }
    return new Promise((resolve) => {
        dialog.addEventListener("close", () => {
            resolve(dialog.returnValue === "yes" ? $("ask-input").value.trim() : null);
        }, { once: true });
    });
}

/* The one menu of the page: entries are [label, action]. Arrow keys, Home and End move. */
function openMenu(button, entries) {
    const menu = $("menu");
    menu.replaceChildren(...entries.map(([label, action]) =>
        el("button", { type: "button", role: "menuitem", tabindex: "-1",
                       on: { click: () => { menu.hidePopover(); button.focus(); action(); } } },
           label)));
    menu.showPopover();
    const at = button.getBoundingClientRect();
    const size = menu.getBoundingClientRect();
    const left = Math.min(at.left, innerWidth - size.width - 8);
    const below = at.bottom + 4 + size.height < innerHeight;
    menu.style.left = Math.max(8, left) + "px";
    menu.style.top = (below ? at.bottom + 4 : Math.max(8, at.top - size.height - 4)) + "px";
    menu.firstChild.focus();
    menu.onkeydown = (event) => {
        const items = [...menu.children];
        const now = items.indexOf(document.activeElement);
        const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: -1 }[event.key];
        if (to !== undefined) {
            event.preventDefault();
            items[(to + items.length) % items.length].focus();
        } else if (event.key === "Tab" || event.key === "Escape") {
            event.preventDefault();
            menu.hidePopover();
            button.focus();
        }
    };
}
