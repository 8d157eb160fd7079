// @ts-check
// Starts the page, with the data embedded in it or with a server.

import { App } from "./app.js";
import { SavedData, ServerData } from "./provider.js";

const savedElement = document.getElementById("flamelet-data");
const provider = savedElement ? new SavedData(JSON.parse(savedElement.textContent ?? "")) : new ServerData();
// The server has set a cookie; the token in the URL must not stay in the history or on the screen.
if (location.search !== "" && !savedElement) history.replaceState(null, "", location.pathname + location.hash);
const root = document.getElementById("app");
if (root) void new App(root, provider).start();
