// What the page does by itself: it shows what changed, follows sessions, and moves by keys. All of it works without, reloaded by hand.
"use strict";
(() => {
  const main = document.querySelector("main");
  const lost = document.getElementById("connection");
  const quiet = { headers: { "x-ralph-live": "1" }, credentials: "same-origin" };

  // Brings `old` to what `fresh` is. What somebody opened, typed or has under the cursor stays.
  function morph(old, fresh) {
    if (old.nodeType !== 1 || fresh.nodeType !== 1 || old.tagName !== fresh.tagName) {
      if (old.nodeType === 3 && fresh.nodeType === 3) {
        if (old.data !== fresh.data) old.data = fresh.data;
      } else old.replaceWith(document.importNode(fresh, true));
      return;
    }
    if (old.id === "transcript" && old.hasAttribute("data-follow") && fresh.id === "transcript") return;
    if (old.matches("input, textarea, select") && old.type !== "hidden") return;
    for (const { name, value } of fresh.attributes) {
      if (name === "open" && old.tagName === "DETAILS") continue;
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(name === "open" && old.tagName === "DETAILS")) old.removeAttribute(name);
    }
    const keyed = new Map();
    for (const child of old.children) if (child.id) keyed.set(child.id, child);
    let at = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      const known = child.id && keyed.get(child.id);
      if (known) {
        if (known === at) at = at.nextSibling;
        else old.insertBefore(known, at);
        morph(known, child);
      } else if (at && !at.id && !child.id && at.nodeName === child.nodeName) {
        const next = at.nextSibling;
        morph(at, child);
        at = next;
      } else old.insertBefore(document.importNode(child, true), at);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  // Looks anew: at once where nothing was asked for lately, and never for more than a fifth of the time.
  let reading = false, again = false, last = 0, pause = 0, timer = 0, stale = false;
  function soon() {
    if (document.hidden) stale = true;
    else if (reading) again = true;
    else timer ||= setTimeout(refresh, Math.max(0, last + pause - Date.now()));
  }
  async function refresh() {
    const began = Date.now();
    timer = 0;
    reading = true;
    stale = again = false;
    try {
      const answer = await fetch(location.pathname + location.search, quiet);
      if (answer.status === 401) return location.reload();
      if (answer.ok) {
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        document.title = fresh.title;
        const said = main.querySelector(":scope > .done");
        if (said) fresh.querySelector("main").prepend(fresh.importNode(said, true));
        morph(main, fresh.querySelector("main"));
        times();
        // A first session, or another one than that which was shown, begins.
        if (!transcript && document.querySelector("#transcript[data-follow]")) location.reload();
      }
    } catch { /* The next one will do. */ }
    last = Date.now();
    pause = Math.max(200, 4 * (last - began));
    reading = false;
    if (again) soon();
  }

  // A stream, open only while somebody looks: of one address browsers have six connections, over all tabs.
  function stream(address, opened) {
    let source = null, over = false;
    const open = () => { if (!source && !over && !document.hidden) opened(source = new EventSource(address())); };
    const close = () => { if (source) source.close(); source = null; };
    addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
    open();
    return () => { over = true; close(); };
  }

  // Each beginning of the stream tells that anything may have changed, which the page knows that has just come.
  const watched = main && main.dataset.watch;
  if (watched) {
    let isNew = true, worry = 0;
    stream(() => "/live", (news) => {
      news.addEventListener("changed", (event) => {
        const feature = JSON.parse(event.data).feature;
        const known = !feature && isNew;
        isNew = false;
        if (!known && (!feature || watched === "*" || feature === watched)) soon();
      });
      news.onopen = () => { clearTimeout(worry); worry = 0; lost.hidden = true; };
      news.onerror = () => {
        worry ||= setTimeout(() => { lost.hidden = document.hidden; }, 3000);
        // Refused for good, as where the session has ended.
        if (news.readyState === 2) setTimeout(() => { if (!document.hidden) location.reload(); }, 10000);
      };
    });
    addEventListener("visibilitychange", () => { if (!document.hidden && stale) soon(); });
    setInterval(() => { if (Date.now() - last > 30000) soon(); }, 30000);
  }

  // A session that is followed.
  const transcript = document.querySelector("#transcript[data-follow]");
  if (transcript) {
    const begin = new URL(transcript.dataset.follow, location.href);
    let after = begin.searchParams.get("after");
    // The entries of the session before keep their place, but numbers begin anew.
    const renumber = () => { for (const one of transcript.querySelectorAll("[id^=e]")) one.removeAttribute("id"); };
    const put = (event) => {
      const atEnd = innerHeight + scrollY > document.body.scrollHeight - 160;
      const made = document.createElement("template");
      made.innerHTML = JSON.parse(event.data);
      const entry = made.content.firstElementChild;
      const known = document.getElementById(entry.id);
      if (known && transcript.contains(known)) {
        for (const one of entry.querySelectorAll("details")) {
          const before = document.getElementById(one.id);
          if (before) one.open = before.open;
        }
        known.replaceWith(entry);
      } else {
        if (entry.classList.contains("t-session") && transcript.children.length) renumber();
        transcript.append(entry);
      }
      if (event.lastEventId) after = event.lastEventId;
      times(transcript.lastElementChild);
      if (atEnd && scrollY > 0) scrollTo(0, document.body.scrollHeight);
    };
    const end = stream(() => {
      if (after) begin.searchParams.set("after", after);
      return begin;
    }, (session) => {
      session.addEventListener("entry", put);
      session.addEventListener("end", (event) => { put(event); end(); });
    });
  }

  // Times as they are seen from here and now.
  function times(within = document) {
    const now = Date.now();
    for (const time of within.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(+at)) continue;
      time.title = at.toLocaleString();
      if ("clock" in time.dataset) time.textContent = at.toTimeString().slice(0, 5);
      if (!("ago" in time.dataset)) continue;
      const s = Math.abs(now - at) / 1000;
      const words = s < 45 ? "" : s < 5400 ? `${Math.round(s / 60)} min` : s < 129600 ? `${Math.round(s / 3600)} h`
        : s < 2592000 ? `${Math.round(s / 86400)} days` : at.toISOString().slice(0, 10);
      time.textContent = !words ? "just now" : s >= 2592000 ? words : at > now ? `in ${words}` : `${words} ago`;
    }
  }
  times();
  setInterval(() => times(), 20000);

  // What was done is said once.
  const here = new URL(location.href);
  if (here.searchParams.has("did")) {
    here.searchParams.delete("did");
    history.replaceState(null, "", here);
  }

  // Forms that send themselves.
  const link = document.querySelector("form[data-send]");
  if (link) link.requestSubmit();
  const then = document.querySelector("form input[name=then]");
  // Who comes from another site brings no session at first; from here it is sent.
  if (then && !link) {
    fetch("/me", quiet).then((answer) => { if (answer.status === 204) location.replace(then.value); }).catch(() => {});
  }
  addEventListener("change", (event) => { if (event.target.matches("[data-submit]")) event.target.form.requestSubmit(); });
  addEventListener("submit", (event) => {
    // Pressed twice, it is sent once.
    if (event.target.dataset.sent) event.preventDefault();
    if (event.target.method === "post") event.target.dataset.sent = "1";
  });
  addEventListener("pageshow", () => { for (const form of document.forms) delete form.dataset.sent; });
  addEventListener("input", (event) => {
    const find = event.target.dataset.find;
    if (!find) return;
    const word = event.target.value.toLowerCase();
    for (const row of document.querySelectorAll(find)) row.hidden = word !== "" && !row.textContent.toLowerCase().includes(word);
  });

  // Keys.
  const help = document.getElementById("help");
  const show = () => help && !help.open && help.showModal();
  addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) show();
    if (event.target.closest("[data-errors]")) nextError();
  });
  function move(by) {
    const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
    if (!rows.length) return;
    const here = rows.indexOf(document.activeElement.closest && document.activeElement.closest("[data-row]"));
    const to = rows[Math.max(0, Math.min(rows.length - 1, here + by))] || rows[0];
    to.focus();
    to.scrollIntoView({ block: "nearest" });
  }
  let error = -1;
  function nextError() {
    const errors = document.querySelectorAll(".is-error");
    if (errors.length) errors[error = (error + 1) % errors.length].scrollIntoView({ block: "center" });
  }
  let gone = 0;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "Escape" && typing) return event.target.blur();
    if (typing || (help && help.open)) return;
    if (gone && Date.now() - gone < 1500) {
      gone = 0;
      const to = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (to) { event.preventDefault(); to.click(); }
      return;
    }
    const row = document.activeElement.matches && document.activeElement.matches("[data-row]") && document.activeElement;
    switch (event.key) {
      case "g": gone = Date.now(); break;
      case "?": show(); break;
      case "j": move(1); break;
      case "k": move(-1); break;
      case "e": nextError(); break;
      case "/": {
        const field = document.querySelector("input[type=search]");
        if (field) { event.preventDefault(); field.focus(); field.select(); }
        break;
      }
      case "Enter": {
        const open = row && row.querySelector("[data-open]");
        if (open) open.click();
        break;
      }
      default:
    }
  });
})();
