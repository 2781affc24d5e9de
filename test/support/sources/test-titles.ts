// Finds tests in the sources of their files.

/** Whether a source has a test, a block of tests, or a case of the conformance kit with this title. */
export function hasTest(source: string, title: string): boolean {
  return ["'", '"', '`'].some((quote) =>
    new RegExp(
      `(?:(?:\\b(?:it|describe)\\b[^\\n]*|^ *\\]\\))\\(\\s*|\\brule: )${quote}${escaped(title)}${quote}`,
      'm',
    ).test(source),
  )
}

function escaped(title: string): string {
  return title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
