"use strict";
// Names come from training folders and from files of the user: they are set as text, never as markup.

const AT_A_TIME = 4; // requests: further images wait here
const SHOWN = 4; // known classes of a card
const UNKNOWN = "unknown";
const SMALL = 64; // pixels, below which a picture is enlarged without blur
const FOR_GOOD = [400, 403, 413, 415, 422]; // refusals that another try does not change
const PATIENCE = 60; // seconds that an image waits for a busy server
const ELSEWHERE = "Something else answers in its place, such as a page to log in. Reload this page.";
const TITLES = {
  0: "The server cannot be reached",
  400: "The server cannot read this file",
  401: "The server needs a valid token",
  403: "The server refuses this page",
  408: "The image took too long to arrive",
  413: "The image is too large",
  415: "The server cannot read this file",
  422: "This is not an image that the server reads",
  503: "The server is busy",
};

let about = null;
let token = "";
let cards = [];
const queue = [];
let working = 0;

const $ = (id) => document.getElementById(id);
const headers = (more) => (token ? { ...more, Authorization: `Bearer ${token}` } : more);
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : noun.endsWith("s") ? "es" : "s"}`;
const number = (value) => String(Number(value.toPrecision(4)));
const scored = (value) => (Math.abs(value) < 100 ? value.toPrecision(3) : value.toFixed(0)).replace("-", "−");

function percent(share) {
  if (share > 0.9995) return share === 1 ? "100 %" : "> 99.9 %";
  return share && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;
}

class Refused extends Error {
  constructor(status, detail, after = 0) {
    super(detail);
    this.status = status;
    this.after = after; // seconds, after which the server wants to be asked again
    this.title = TITLES[status] ?? `The server failed (${status})`;
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Refused(0, "No answer came. Is the server running, and is this machine connected?");
  }
  const content = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, content?.detail ?? "", Number(answer.headers.get("Retry-After")));
  if (!content) throw new Refused(0, ELSEWHERE);
  return content;
}

// The model, and the token

async function load() {
  try {
    about = await ask("./", { headers: headers({ Accept: "application/json" }) });
  } catch (error) {
    if (error.status === 401) return askForToken(token && "The server does not accept this token.");
    return say(`${error.title}. ${error.message}`);
  }
  say(about.problem ? `Still ${about.model}: ${about.problem}` : "");
  const entered = $("access").contains(document.activeElement);
  $("access").hidden = true;
  $("trial").hidden = false;
  if (entered) $("files").focus();
  $("routes").hidden = token !== ""; // a link carries no token
  $("model").textContent = about.model;
  document.title = `${about.model}: try it`;
  const facts = [`sees images at ${about.image_size} × ${about.image_size} pixels`];
  facts.push(`is calibrated to keep ${number(100 * about.target_rate)} % of known images known`);
  $("facts").textContent = `Names one of ${counted(about.classes.length, "class")}, or says unknown; ${facts.join("; ")}.`;
  $("classes").hidden = false;
  $("classes").open = about.classes.length <= 20;
  $("classes").querySelector("summary").textContent = `The ${counted(about.classes.length, "class")}`;
  $("classes").querySelector("ul").replaceChildren(...about.classes.map((name) => element("li", name)));
  $("limits").textContent = `Up to ${about.max_megabytes} MB and ${about.max_megapixels} megapixels each`;
  return null;
}

function askForToken(problem) {
  say(problem);
  token = "";
  $("trial").hidden = true;
  $("access").hidden = false;
  $("token").value = "";
  $("token").focus();
}

function say(problem) {
  $("problem").textContent = problem;
  $("problem").hidden = !problem;
}

// Images: each is a request of its own, so that one that is refused leaves the others alone

function add(files) {
  if (!about || !files.length) return;
  const added = [...files].map(makeCard);
  cards = [...added, ...cards];
  $("results").prepend(...added.map((card) => card.item));
  added.forEach(enqueue);
}

function makeCard(file) {
  const item = $("card").content.firstElementChild.cloneNode(true);
  const card = { file, item, find: (selector) => item.querySelector(selector), url: URL.createObjectURL(file) };
  const image = card.find("img");
  image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth < SMALL));
  image.addEventListener("error", () => image.replaceWith("This browser has no preview of this format"));
  image.src = card.url;
  card.find("figcaption").textContent = file.name;
  card.find(".again").addEventListener("click", () => {
    item.focus();
    enqueue(card);
  });
  return card;
}

function enqueue(card) {
  show(card, "waiting", "waiting …", "");
  queue.push(card);
  work();
}

async function work() {
  if (working >= AT_A_TIME || !queue.length) return;
  const card = queue.shift();
  working += 1;
  try {
    const answer = await classify(card);
    if (!answer.predictions) throw new Refused(0, ELSEWHERE);
    card.prediction = answer.predictions[0];
    showPrediction(card);
    if (answer.version !== about.version || answer.model !== about.model) await load(); // the alias has moved
  } catch (error) {
    show(card, "failed", error.title, error.message.replace(/^image 0:? /, ""));
    card.again = !FOR_GOOD.includes(error.status);
    card.find(".again").hidden = !card.again;
  }
  working -= 1;
  summarise();
  work();
}

async function classify(card) {
  const { file } = card;
  if (file.size > about.max_megabytes * 1e6) {
    const size = Math.ceil(file.size / 1e5) / 10; // refused while it still arrives, it would seem that no answer came
    throw new Refused(413, `It has ${size} MB; the server takes ${about.max_megabytes} MB or less.`);
  }
  const body = await file.arrayBuffer().catch(() => {
    throw new Refused(400, "The browser cannot read it. Is it a folder?");
  });
  if (!body.byteLength) throw new Refused(400, "It is empty.");
  for (let left = PATIENCE; ; ) {
    if (!$("access").hidden) throw new Refused(401, "It was not sent without one.");
    const sent = token;
    try {
      return await ask("predict", { method: "POST", body, headers: headers({ "Content-Type": "application/octet-stream" }) });
    } catch (error) {
      const asked = sent !== token || !$("access").hidden; // by another image, while this one was under way
      if (error.status === 401 && !asked) askForToken(`${error.title}.`);
      left -= error.after;
      if (!(error.after > 0 && left >= 0 && cards.includes(card))) throw error;
      show(card, "waiting", "waiting …", `${error.title}.`);
      await new Promise((resolve) => setTimeout(resolve, 1000 * error.after));
    }
  }
}

// Cards

function show(card, state, title, words) {
  card.item.className = state;
  card.prediction = state === "waiting" || state === "failed" ? null : card.prediction;
  card.find("h2").textContent = title;
  card.find(".words").textContent = words;
  for (const part of [".score", "table"]) card.find(part).hidden = !card.prediction;
  card.again = false;
  card.find(".again").hidden = true;
}

function showPrediction(card) {
  const { label, unknown, unknown_score: score, nearest_class: nearest, probabilities } = card.prediction;
  const known = Object.entries(probabilities)
    .filter(([name]) => name !== UNKNOWN)
    .sort((one, other) => other[1] - one[1] || (other[0] === nearest) - (one[0] === nearest)); // rounded, all may be 0
  const words = unknown ? `Of the known classes it is most like ${nearest}.` : "One of the known classes.";
  show(card, unknown ? "unknown" : "known", label, words);
  const side = unknown ? "above" : "not above";
  card.find(".score p").replaceChildren("Score ", element("b", scored(score)));
  card.find(".score p").append(`, ${side} the threshold of 0`);
  const shown = known.length > SHOWN + 1 ? SHOWN : known.length; // "1 other" takes the row of the class that it hides
  const rows = [...known.slice(0, shown), [UNKNOWN, probabilities[UNKNOWN]]].sort((one, other) => other[1] - one[1]);
  const rest = known.slice(shown);
  if (rest.length) {
    const share = rest.reduce((sum, [, value]) => sum + value, 0);
    rows.push([counted(rest.length, "other"), share, "rest"]);
  }
  card.find("tbody").replaceChildren(...rows.map(([name, share, kind]) => row(name, share, kind, label)));
}

function row(name, share, kind, label) {
  const found = element("tr");
  const fill = element("span");
  fill.className = "fill";
  fill.style.width = `${100 * share}%`;
  found.classList.toggle("of-unknown", !kind && name === UNKNOWN);
  found.classList.toggle("chosen", !kind && name === label);
  const cells = [element("th", name), element("td"), element("td", percent(share))];
  cells[0].scope = "row";
  cells[1].append(fill);
  found.append(...cells);
  return found;
}

function summarise() {
  const done = cards.filter((card) => card.prediction);
  const unknown = done.filter((card) => card.prediction.unknown).length;
  const failed = cards.filter((card) => card.item.className === "failed").length;
  const waiting = cards.length - done.length - failed;
  const parts = [`${done.length - unknown} known`, `${unknown} unknown`];
  if (failed) parts.push(`${failed} not classified`);
  if (waiting) parts.push(`${waiting} waiting`);
  $("bar").hidden = !cards.length;
  $("all-again").hidden = cards.filter((card) => card.again).length < 2;
  $("legend").hidden = !done.length;
  $("summary").textContent = cards.length ? `${counted(cards.length, "image")}: ${parts.join(", ")}` : "";
  scale(done);
}

function scale(done) {
  // One scale for all cards, with the threshold in the middle, so that their bars can be compared.
  const range = about.known_scores ?? [];
  const most = 1.1 * Math.max(...range.map(Math.abs), ...done.map((card) => Math.abs(card.prediction.unknown_score)));
  const place = (value) => 50 + (50 * value) / most;
  const span = (part, from, to) =>
    Object.assign(part.style, { left: `${place(from)}%`, width: `${place(to) - place(from)}%` });
  $("band-key").hidden = !range.length;
  for (const card of done) {
    const score = card.prediction.unknown_score;
    span(card.find(".length"), Math.min(0, score), Math.max(0, score));
    if (range.length) span(card.find(".scale .band"), ...range);
  }
}

function element(kind, text = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

$("access").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  if (/^[!-~]+$/.test(token)) load();
  else askForToken("A token is one word of ASCII characters.");
});
$("files").addEventListener("change", (event) => {
  add(event.target.files);
  event.target.value = ""; // so that the same file can be chosen again
});
$("clear").addEventListener("click", () => {
  cards.forEach((card) => URL.revokeObjectURL(card.url));
  queue.length = 0;
  cards = [];
  $("results").replaceChildren();
  summarise();
  $("files").focus();
});
$("all-again").addEventListener("click", () => {
  cards.filter((card) => card.again).forEach(enqueue);
  $("files").focus();
  summarise();
});
document.addEventListener("paste", (event) => add(event.clipboardData.files));
document.addEventListener("dragover", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  $("drop").classList.add("over");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) $("drop").classList.remove("over");
});
document.addEventListener("drop", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  $("drop").classList.remove("over");
  add(event.dataTransfer.files);
});
load();
