/** HTML in which every text is escaped. Pure. */
import { visibleLine } from '@eaas/protocol'

/** Markup that is already escaped. Any other value counts as text. */
export class Markup {
  constructor(readonly text: string) {}
}

type Part = Markup | string | number | null | undefined | false | readonly Part[]

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Writes markup, and escapes inserted text. Attributes need quotation marks. */
export function html(literals: TemplateStringsArray, ...parts: Part[]): Markup {
  return new Markup(literals.map((literal, at) => literal + write(parts[at])).join(''))
}

function write(part: Part): string {
  if (part === null || part === undefined || part === false) return ''
  if (part instanceof Markup) return part.text
  if (typeof part === 'object') return part.map(write).join('')
  return visibleLine(String(part)).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '')
}
