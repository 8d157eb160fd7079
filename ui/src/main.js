// @ts-check
// Starts the page: with the data that stands in it, or with a server to ask.

import { App } from "./app.js";
import { SavedData, ServerData } from "./provider.js";

const savedElement = document.getElementById("flamelet-data");
const provider = savedElement ? new SavedData(JSON.parse(savedElement.textContent ?? "")) : new ServerData();
// The server has set a cookie; the token in the address is not for the history, or for whoever looks on.
if (location.search !== "" && !savedElement) history.replaceState(null, "", location.pathname + location.hash);
const root = document.getElementById("app");
if (root) void new App(root, provider).start();
