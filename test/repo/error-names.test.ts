// The logs of the server and of a witness name errors: each class has its own name, not that of the class that it extends.
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { sourcesBelow } from '../support/sources/source-files.js'

interface ErrorClass {
  name: string
  base: string
  /** what its instances are named, if the class says it */
  says: string | undefined
}

const classes = ['packages/audit/src', 'packages/server/src']
  .flatMap(sourcesBelow)
  .flatMap(({ tree }) => tree.statements.filter(ts.isClassDeclaration).flatMap(describeClass))

function describeClass({ name, heritageClauses, members }: ts.ClassDeclaration): ErrorClass[] {
  const base = heritageClauses?.find(({ token }) => token === ts.SyntaxKind.ExtendsKeyword)?.types[0]?.expression
  if (!name || !base) return []
  const property = members.filter(ts.isPropertyDeclaration).find((member) => member.name.getText() === 'name')
  const says = property?.initializer && ts.isStringLiteral(property.initializer) ? property.initializer.text : undefined
  return [{ name: name.text, base: base.getText(), says }]
}

function isError(base: string): boolean {
  return base === 'Error' || classes.some((one) => one.name === base && isError(one.base))
}

describe('each class of errors of the server and of @eaas/audit', () => {
  const errors = classes.filter(({ base }) => isError(base))

  it.each(errors)('names its instances after itself: $name', ({ name, says }) => {
    expect(says).toBe(name)
  })
})
