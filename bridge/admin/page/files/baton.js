// The page without this script is whole. The script keeps an open page up to date: the gateway
// names a page that changed, and the script fetches that page and replaces its rows.
"use strict";

// busy reports whether a reader is at an element: it has the focus, the pointer or the selection.
function busy(element) {
  const selection = document.getSelection();
  return element.contains(document.activeElement) || element.matches(":hover") || element.querySelector("details[open], input:checked") !== null ||
    (selection !== null && !selection.isCollapsed && selection.containsNode(element, true));
}

// mergeRows makes the rows of a list those of a newer one. A row at which a reader is stays as it
// is; where the newer list lacks it, it is marked.
function mergeRows(list, newer) {
  const keyed = (rows) => new Map(Array.from(rows.children, (row) => [row.dataset.key, row]));
  const before = keyed(list), after = keyed(newer);
  for (const [key, row] of before) {
    if (after.has(key)) continue;
    if (busy(row)) row.classList.add("gone"); else row.remove();
  }
  let place = list.firstElementChild;
  const passMarked = () => { while (place !== null && place.classList.contains("gone")) place = place.nextElementSibling; };
  for (const [key, row] of after) {
    passMarked();
    let shown = before.get(key);
    if (shown === undefined) {
      shown = document.importNode(row, true);
      shown.classList.add("fresh");
    } else if (!busy(shown) && shown.innerHTML !== row.innerHTML) {
      const replaced = document.importNode(row, true);
      if (place === shown) place = replaced;
      shown.replaceWith(replaced);
      shown = replaced;
    } else {
      shown.classList.remove("gone");
    }
    if (shown === place) place = place.nextElementSibling; else if (!busy(shown)) list.insertBefore(shown, place);
  }
}

// update replaces what changed of the page.
async function update() {
  const response = await fetch(location.href, { credentials: "same-origin", redirect: "manual" });
  if (!response.ok) {
    if (response.type === "opaqueredirect") location.reload(); // the session is over
    return;
  }
  const newer = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const section of newer.querySelectorAll("main > section, main > ol, main > div")) {
    if (section.id !== "" && document.getElementById(section.id) === null) document.querySelector("main").append(document.importNode(section, true));
  }
  for (const rows of newer.querySelectorAll("[data-rows]")) mergeRows(document.getElementById(rows.id), rows);
  for (const part of newer.querySelectorAll("[data-part]")) {
    const old = document.getElementById(part.id);
    if (old !== null && !busy(old) && old.innerHTML !== part.innerHTML) old.replaceWith(document.importNode(part, true));
  }
}

// age writes the time between two moments as the gateway does.
function age(milliseconds) {
  const seconds = Math.floor(Math.abs(milliseconds) / 1000), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
  const text = hours > 0 ? `${hours}h${minutes % 60}m` : minutes > 0 ? `${minutes}m${seconds % 60}s` : `${seconds}s`;
  return milliseconds < 0 ? `in ${text}` : `${text} ago`;
}

function refreshAges() {
  for (const time of document.querySelectorAll("time + .age")) time.textContent = age(Date.now() - Date.parse(time.previousElementSibling.dateTime));
}

const page = document.body.dataset.page;
if (page !== undefined) {
  let waiting = Promise.resolve();
  const events = new EventSource("/ui/events?page=" + encodeURIComponent(page));
  const refresh = () => { waiting = waiting.then(update, update).catch(() => {}); };
  events.onopen = refresh; // what changed before the gateway looked
  events.onmessage = refresh;
  addEventListener("pagehide", () => events.close());
  setInterval(refreshAges, 5000);
}
