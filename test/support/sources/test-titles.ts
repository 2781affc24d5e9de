// Finds tests in the sources of their files.

/** Whether a source has a test or a block of tests with this title. */
export function hasTest(source: string, title: string): boolean {
  return ["'", '"', '`'].some((quote) =>
    new RegExp(`(?:\\b(?:it|describe)\\b[^\\n]*|^ *\\]\\))\\(\\s*${quote}${escaped(title)}${quote}`, 'm').test(source),
  )
}

function escaped(title: string): string {
  return title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
