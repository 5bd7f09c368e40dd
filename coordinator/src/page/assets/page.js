// Refreshes the page after changes, follows sessions, and handles keys. Without this script, everything works
// with manual reloads.
"use strict";
(() => {
  document.documentElement.classList.add("scripted");
  const main = document.querySelector("main");
  const lost = document.getElementById("connection");
  const quiet = { headers: { "x-ralph-live": "1" }, credentials: "same-origin" };

  // Turns `old` into `fresh`. Keeps open details, typed text and the focus.
  function morph(old, fresh) {
    if (old.nodeType !== 1 || fresh.nodeType !== 1 || old.tagName !== fresh.tagName) {
      if (old.nodeType === 3 && fresh.nodeType === 3) {
        if (old.data !== fresh.data) old.data = fresh.data;
      } else old.replaceWith(document.importNode(fresh, true));
      return;
    }
    // A followed transcript is ahead of a fresh one, and keeps its scroll position.
    if (transcript && old.id && old.id === fresh.id && (old === transcript || old.id === "earlier" || old.id === "errors")) return;
    if (old.id === "session" && fresh.id === "session" && old.querySelector("ol.earlier")) return;
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

  // Fetches the page again: at once after a quiet time, and for at most a fifth of the time.
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
        zoom(scale);
        // A first or another session has started.
        if (!transcript && document.querySelector("#transcript[data-follow]")) location.reload();
      }
    } catch { /* A later refresh succeeds. */ }
    last = Date.now();
    pause = Math.max(200, 4 * (last - began));
    reading = false;
    if (again) soon();
  }

  // Opens a stream only while the page is visible: browsers allow six connections to one host over all tabs.
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

  // The first event of a stream says that anything may have changed; a fresh page ignores it.
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
        // The server refuses the stream for good, for example after the session has ended.
        if (news.readyState === 2) setTimeout(() => { if (!document.hidden) location.reload(); }, 10000);
      };
    });
    addEventListener("visibilitychange", () => { if (!document.hidden && stale) soon(); });
    setInterval(() => { if (Date.now() - last > 30000) soon(); }, 30000);
  }

  // Follows a session. Inserts new entries once per frame. Removes entries that have scrolled far away, since
  // the link to earlier entries has them. While somebody reads further up, moves them to a separate list
  // instead, whose layout browsers skip.
  const transcript = document.querySelector("#transcript[data-follow]");
  const MOST = 1200, KEPT = 800, BUSY_MS = 10;
  function countErrors() {
    const button = document.getElementById("errors");
    const count = button ? document.querySelectorAll(".is-error").length : 0;
    if (!button || count <= parseInt(button.textContent, 10)) return;
    button.hidden = false;
    button.textContent = count === 1 ? "1 error" : `${count} errors`;
  }
  if (transcript) {
    const begin = new URL(transcript.dataset.follow, location.href);
    const number = (entry) => Number(entry.id.slice(1));
    const shown = document.getElementById("earlier").hidden ? null : transcript.querySelector("[id^=e]");
    // A later entry of a tool call may belong to one that is not shown.
    let from = shown ? number(shown) : 0;
    let after = begin.searchParams.get("after"), waiting = [], due = 0, isAnother = false;
    // Entries of the previous session stay, but numbers start again.
    const renumber = () => {
      isAnother = true;
      from = 0;
      for (const one of document.querySelectorAll(".transcript [id^=e]")) one.removeAttribute("id");
    };
    const put = (html) => {
      const made = document.createElement("template");
      made.innerHTML = html;
      const entry = made.content.firstElementChild;
      if (number(entry) < from) return;
      const known = document.getElementById(entry.id);
      if (known && known.closest(".transcript")) {
        for (const one of entry.querySelectorAll("details")) {
          const before = document.getElementById(one.id);
          if (before) one.open = before.open;
        }
        known.replaceWith(entry);
      } else {
        if (entry.classList.contains("t-session") && transcript.children.length) renumber();
        transcript.append(entry);
      }
      times(entry);
    };
    const setApart = () => {
      const part = document.createElement("ol");
      part.className = "transcript earlier";
      while (transcript.children.length > KEPT) part.append(transcript.firstElementChild);
      transcript.before(part);
    };
    const leaveOut = () => {
      const first = transcript.children[transcript.children.length - KEPT];
      const earlier = document.getElementById("earlier");
      if (isAnother || !/^e[0-9]+$/.test(first.id)) return setApart();
      while (transcript.firstElementChild !== first) transcript.firstElementChild.remove();
      for (const part of document.querySelectorAll("ol.earlier")) part.remove();
      const link = earlier.querySelector("a"), to = new URL(link.href);
      from = number(first);
      to.searchParams.set("before", from);
      link.href = to;
      earlier.querySelector("span").textContent = "";
      earlier.hidden = false;
    };
    const flush = () => {
      due = 0;
      const follows = scrollY > 0 && innerHeight + scrollY > document.body.scrollHeight - 160;
      const until = performance.now() + BUSY_MS;
      let taken = 0;
      while (taken < waiting.length && performance.now() < until) put(waiting[taken++]);
      waiting.splice(0, taken);
      if (waiting.length) due = setTimeout(flush, 16);
      if (transcript.children.length > MOST) (follows ? leaveOut : setApart)();
      countErrors();
      if (follows) scrollTo(0, document.body.scrollHeight);
    };
    const take = (event) => {
      waiting.push(JSON.parse(event.data));
      if (event.lastEventId) after = event.lastEventId;
      due ||= setTimeout(flush, 16);
    };
    const end = stream(() => {
      if (after) begin.searchParams.set("after", after);
      return begin;
    }, (session) => {
      session.addEventListener("entry", take);
      session.addEventListener("end", (event) => { take(event); end(); });
    });
  }

  // Loads earlier entries when somebody scrolls up to them.
  const earlier = document.getElementById("earlier");
  async function before() {
    const link = earlier.querySelector("a"), asked = link.href;
    const answer = await fetch(asked, quiet);
    const fresh = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
    const part = fresh && fresh.getElementById("transcript"), next = fresh && fresh.getElementById("earlier");
    // The link may have changed meanwhile because entries were removed.
    if (!part || link.href !== asked) return;
    const below = earlier.nextElementSibling, top = below.getBoundingClientRect().top, isAbove = earlier.getBoundingClientRect().bottom < 0;
    part.removeAttribute("id");
    part.className = "transcript earlier";
    for (const one of part.querySelectorAll("[id]")) one.removeAttribute("id");
    times(part);
    earlier.after(document.importNode(part, true));
    link.href = next.querySelector("a").href;
    earlier.querySelector("span").textContent = next.querySelector("span").textContent;
    earlier.hidden = next.hidden;
    // Restores the scroll position if the browser doesn't keep it.
    requestAnimationFrame(() => {
      const by = below.getBoundingClientRect().top - top;
      if (isAbove && Math.abs(by) > innerHeight / 2) scrollBy(0, by);
    });
  }
  if (earlier) {
    let busy = false, last = scrollY;
    const more = async () => {
      if (busy) return;
      busy = true;
      try { await before(); } catch { /* The link remains. */ }
      busy = false;
    };
    addEventListener("scroll", () => {
      const isUp = scrollY < last;
      last = scrollY;
      if (!isUp || earlier.hidden) return;
      const { bottom } = earlier.getBoundingClientRect();
      if (bottom < innerHeight / 2 && bottom > -2500) more();
    }, { passive: true });
    earlier.addEventListener("click", (event) => { event.preventDefault(); more(); });
  }

  // The graph: zoomed with buttons, keys and the wheel; moved by dragging and scrolling.
  let scale = 1;
  const graph = () => document.querySelector(".graph");
  function zoom(to, x, y) {
    const box = graph(), drawing = box && box.querySelector("svg");
    if (!drawing) return;
    const { width, height } = drawing.viewBox.baseVal;
    const size = () => {
      drawing.setAttribute("width", width * scale);
      drawing.setAttribute("height", height * scale);
    };
    if (to === scale) return size();
    const by = Math.min(4, Math.max(.02, to)) / scale;
    scale *= by;
    // Keeps the point under the pointer, or the middle, in place.
    x ??= box.clientWidth / 2;
    y ??= box.clientHeight / 2;
    const left = (box.scrollLeft + x) * by - x, top = (box.scrollTop + y) * by - y;
    size();
    box.scrollTo(left, top);
  }
  function zoomed(how) {
    if (how === "in") zoom(scale * 1.25);
    else if (how === "out") zoom(scale / 1.25);
    else {
      const box = graph(), { width, height } = box.querySelector("svg").viewBox.baseVal;
      zoom(scale === 1 ? Math.min((box.clientWidth - 24) / width, (box.clientHeight - 24) / height) : 1);
    }
  }
  addEventListener("wheel", (event) => {
    const box = event.ctrlKey && event.target.closest(".graph");
    if (!box) return;
    event.preventDefault();
    const at = box.getBoundingClientRect();
    zoom(scale * Math.exp(-event.deltaY / 300), event.clientX - at.left, event.clientY - at.top);
  }, { passive: false });
  let held = null, dragged = false;
  addEventListener("pointerdown", (event) => {
    const box = event.button === 0 && event.pointerType === "mouse" && event.target.closest(".graph");
    dragged = false;
    if (box) held = { box, x: event.clientX + box.scrollLeft, y: event.clientY + box.scrollTop };
  });
  addEventListener("pointermove", (event) => {
    if (!held) return;
    const left = held.x - event.clientX, top = held.y - event.clientY;
    dragged ||= Math.abs(left - held.box.scrollLeft) + Math.abs(top - held.box.scrollTop) > 5;
    if (dragged) held.box.scrollTo(left, top);
  });
  addEventListener("pointerup", () => { held = null; });
  // Dragging a link moves the graph, and does not follow the link.
  addEventListener("dragstart", (event) => { if (held) event.preventDefault(); });
  addEventListener("click", (event) => { if (dragged && event.target.closest(".graph")) event.preventDefault(); }, true);

  // Shows times relative to now, in the local time zone.
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

  // Shows a confirmation only once.
  const here = new URL(location.href);
  if (here.searchParams.has("did")) {
    here.searchParams.delete("did");
    history.replaceState(null, "", here);
  }

  // Submits forms automatically.
  const link = document.querySelector("form[data-send]");
  if (link) link.requestSubmit();
  const then = document.querySelector("form input[name=then]");
  // A browser that comes from another site sends no session cookie at first, but does with this request.
  if (then && !link) {
    fetch("/me", quiet).then((answer) => { if (answer.status === 204) location.replace(then.value); }).catch(() => {});
  }
  addEventListener("change", (event) => { if (event.target.matches("[data-submit]")) event.target.form.requestSubmit(); });
  addEventListener("submit", (event) => {
    // A double click submits once.
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
    const by = event.target.closest("[data-zoom]");
    if (by) zoomed(by.dataset.zoom);
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
      case "+": case "-": case "0":
        if (graph()) zoomed({ "+": "in", "-": "out", 0: "whole" }[event.key]);
        break;
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
