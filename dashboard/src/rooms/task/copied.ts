/** Copies a text; over plain HTTP from another machine browsers have only the old way. */
export async function copied(text: string): Promise<void> {
  const { clipboard } = navigator as { clipboard?: Clipboard }
  if (clipboard !== undefined) {
    const done = await clipboard.writeText(text).then(
      () => true,
      () => false, // not allowed here: the old way may be
    )
    if (done) return
  }
  const field = document.createElement('textarea')
  field.value = text
  field.setAttribute('readonly', '')
  field.className = 'sr-only'
  const near = document.activeElement?.closest('[role=dialog]') ?? document.body // a dialog keeps the focus inside
  near.append(field)
  field.select()
  const done = document.execCommand('copy')
  field.remove()
  if (!done) throw new Error(`The browser does not let us copy. Here it is: ${text}`)
}
