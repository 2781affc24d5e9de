/** A fault of the pages or of the sources. Its message says what to correct, so `npm run docs` prints it without a stack. */
export class DocsError extends Error {}
