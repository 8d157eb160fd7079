// @ts-check
// Starts the page: with the data that stands in it, or with a server to ask.

import { App } from "./app.js";
import { SavedData, ServerData } from "./provider.js";

const savedElement = document.getElementById("flamelet-data");
const provider = savedElement ? new SavedData(JSON.parse(savedElement.textContent ?? "")) : new ServerData();
const root = document.getElementById("app");
if (root) void new App(root, provider).start();
