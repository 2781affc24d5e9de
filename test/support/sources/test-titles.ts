// Finds tests in the sources of their files.

/** Whether a source has a test, a block of tests, or a case of the conformance kit with this title. */
export function hasTest(source: string, title: string): boolean {
  const test = '(?:\\b(?:it|describe)\\b[^\\n]*|^ *\\]\\))\\(\\s*'
  return ["'", '"', '`'].some((quote) => {
    const start = `(?:${test}${quote}|${quote}.+: )` // a case begins with its calls
    return new RegExp(`${start}${escaped(title)}${quote}`, 'm').test(source)
  })
}

function escaped(title: string): string {
  return title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}
