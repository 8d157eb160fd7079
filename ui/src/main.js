// @ts-check
// Starts the page.
