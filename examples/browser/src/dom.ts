// The few things that the page does with its document. Text is only ever set as text.

type Child = Node | string

/** Finds an element of index.html. @throws if there is none */
export function find<E extends Element>(selector: string, type: new () => E): E {
  const found = document.querySelector(selector)
  if (!(found instanceof type)) throw new Error(`index.html has no ${selector}`)
  return found
}

/** Makes an element. */
export function element(name: string, attributes: Record<string, string> = {}, ...children: Child[]): HTMLElement {
  const made = document.createElement(name)
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value)
  made.append(...children)
  return made
}
