import css from './shell.module.css'

export function Logo() {
  return (
    <span className={css.logo}>
      <img src="/app/icon.svg" alt="" width={24} height={24} />
      <span>Ringfence</span>
    </span>
  )
}
