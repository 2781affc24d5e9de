/** Strict JSON of requests: no object has a member twice, since readers disagree on which one counts. */

const [QUOTE, COLON, BACKSLASH] = [0x22, 0x3a, 0x5c]

export function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Undefined if the text is not JSON, or if an object in it has a member twice. */
export function readDistinctJson(text: string): unknown {
  const value = readJson(text)
  return countMembers(value) === countColons(text) ? value : undefined
}

/** Counts members. An object with a member twice has fewer than its text has colons, however names are escaped. */
export function countMembers(value: unknown): number {
  let members = 0
  const left = [value] // a list, since text may be nested deeper than calls can
  while (left.length > 0) {
    const one = left.pop()
    if (typeof one !== 'object' || one === null) continue
    const values: unknown[] = Array.isArray(one) ? one : Object.values(one)
    if (!Array.isArray(one)) members += values.length
    for (const inner of values) left.push(inner)
  }
  return members
}

function countColons(text: string): number {
  let colons = 0
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) inString = !inString
    else if (inString && unit === BACKSLASH) at += 1
    else if (!inString && unit === COLON) colons += 1
  }
  return colons
}
