/** The kinds of events: what each is called, where it belongs, and how it looks. */

import {
  Archive,
  ArrowRightLeft,
  Ban,
  BellRing,
  Bot,
  Box,
  Camera,
  CircleDashed,
  CircleSlash,
  Eye,
  FileUp,
  FileX,
  Flag,
  FolderCog,
  FolderPlus,
  FolderX,
  Gauge,
  Hand,
  HeartPulse,
  KeyRound,
  Lightbulb,
  LightbulbOff,
  Link2,
  LogIn,
  type LucideIcon,
  MessageSquare,
  MoonStar,
  Pause,
  Pencil,
  Play,
  Plus,
  RotateCcw,
  Scissors,
  ShieldCheck,
  SlidersHorizontal,
  Sparkles,
  Square,
  Tags,
  Trash2,
  TriangleAlert,
  Unlink,
  UserCog,
  UserMinus,
  UserPlus,
  UserRoundCheck,
} from 'lucide-react'

export type Tone = 'plain' | 'good' | 'warn' | 'bad' | 'info'
export type Kind = { label: string; icon: LucideIcon; tone?: Tone }
type Group = { label: string; kinds: Record<string, Kind> }

export const GROUPS: Record<string, Group> = {
  tasks: {
    label: 'Tasks',
    kinds: {
      task_created: { label: 'Task written', icon: Plus, tone: 'info' },
      task_transition: { label: 'Task moved', icon: ArrowRightLeft },
      task_claimed: { label: 'Task claimed', icon: Hand },
      task_released: { label: 'Task given back', icon: RotateCcw },
      task_assigned: { label: 'Task assigned', icon: UserRoundCheck },
      task_unassigned: { label: 'Task unassigned', icon: UserMinus },
      task_changed: { label: 'Task edited', icon: Pencil },
      task_commented: { label: 'Comment', icon: MessageSquare },
      task_comment_deleted: { label: 'Comment deleted', icon: Trash2 },
      task_reviewer_added: { label: 'Review signed', icon: Eye, tone: 'good' },
      task_reviewer_removed: { label: 'Review withdrawn', icon: Eye },
      task_dependency_added: { label: 'Dependency added', icon: Link2 },
      task_dependency_removed: { label: 'Dependency removed', icon: Unlink },
      task_deleted: { label: 'Task deleted', icon: Trash2, tone: 'warn' },
    },
  },
  agents: {
    label: 'Agents',
    kinds: {
      agent_registered: { label: 'Agent registered', icon: Bot, tone: 'info' },
      agent_unregistered: { label: 'Agent left', icon: UserMinus },
      agent_autonomy_changed: { label: 'Mode changed', icon: SlidersHorizontal },
      global_autonomy_changed: { label: 'Mode of all changed', icon: SlidersHorizontal },
      agent_capabilities_changed: { label: 'Capabilities changed', icon: Tags },
      agent_paused: { label: 'Agent paused', icon: Pause, tone: 'warn' },
      agent_resumed: { label: 'Agent resumed', icon: Play, tone: 'good' },
      agent_revoked: { label: 'Agent revoked', icon: CircleSlash, tone: 'bad' },
      agent_recovered: { label: 'Revocation acknowledged', icon: UserRoundCheck, tone: 'good' },
      checkpoint_submitted: { label: 'Checkpoint', icon: Flag },
      agent_stale: { label: 'Agent silent', icon: MoonStar, tone: 'warn' },
      agent_offline: { label: 'Agent offline', icon: MoonStar, tone: 'warn' },
      agent_back: { label: 'Agent back', icon: HeartPulse, tone: 'good' },
      agent_stalled: { label: 'Agent stalled', icon: BellRing, tone: 'warn' },
      agent_unstalled: { label: 'Agent goes on', icon: HeartPulse, tone: 'good' },
    },
  },
  messages: {
    label: 'Messages',
    kinds: {
      message_sent: { label: 'Message', icon: MessageSquare },
      messages_pruned: { label: 'Messages pruned', icon: Archive },
    },
  },
  proposals: {
    label: 'Proposals',
    kinds: {
      proposal_created: { label: 'Proposal', icon: Lightbulb, tone: 'info' },
      proposal_approved: { label: 'Proposal approved', icon: Lightbulb, tone: 'good' },
      proposal_denied: { label: 'Proposal denied', icon: LightbulbOff },
      proposal_withdrawn: { label: 'Proposal withdrawn', icon: LightbulbOff },
      proposal_failed: { label: 'Proposal failed', icon: LightbulbOff, tone: 'bad' },
    },
  },
  projects: {
    label: 'Projects',
    kinds: {
      project_created: { label: 'Project made', icon: FolderPlus, tone: 'info' },
      project_changed: { label: 'Project changed', icon: FolderCog },
      project_deleted: { label: 'Project deleted', icon: FolderX, tone: 'warn' },
      agent_joined_project: { label: 'Agent joined', icon: UserPlus },
      agent_left_project: { label: 'Agent left the project', icon: UserMinus },
      wip_limit_changed: { label: 'WIP limit', icon: Gauge },
      file_uploaded: { label: 'File uploaded', icon: FileUp },
      file_deleted: { label: 'File deleted', icon: FileX },
      demo_started: { label: 'Demo started', icon: Sparkles },
      demo_removed: { label: 'Demo removed', icon: Sparkles },
    },
  },
  people: {
    label: 'People',
    kinds: {
      person_invited: { label: 'Person invited', icon: UserPlus, tone: 'info' },
      person_changed: { label: 'Person changed', icon: UserCog },
      person_signed_in: { label: 'Sign-in', icon: LogIn },
      token_created: { label: 'Token made', icon: KeyRound },
      token_revoked: { label: 'Token revoked', icon: KeyRound, tone: 'warn' },
    },
  },
  sandboxes: {
    label: 'Sandboxes',
    kinds: {
      sandbox_created: { label: 'Sandbox made', icon: Box, tone: 'info' },
      sandbox_starting: { label: 'Sandbox starting', icon: Play },
      sandbox_started: { label: 'Sandbox started', icon: Play, tone: 'good' },
      sandbox_failed: { label: 'Sandbox failed', icon: TriangleAlert, tone: 'bad' },
      sandbox_stopping: { label: 'Sandbox stopping', icon: Square },
      sandbox_stopped: { label: 'Sandbox stopped', icon: Square },
      sandbox_restarting: { label: 'Sandbox restarting', icon: RotateCcw },
      sandbox_recreating: { label: 'Sandbox made anew', icon: RotateCcw },
      sandbox_paused: { label: 'Sandbox paused', icon: Pause, tone: 'warn' },
      sandbox_resumed: { label: 'Sandbox resumed', icon: Play, tone: 'good' },
      sandbox_changed: { label: 'Sandbox changed', icon: Pencil },
      sandbox_destroying: { label: 'Sandbox being destroyed', icon: Trash2 },
      sandbox_destroyed: { label: 'Sandbox destroyed', icon: Trash2 },
      sandbox_crashed: { label: 'Sandbox crashed', icon: TriangleAlert, tone: 'bad' },
      sandbox_limit_reached: { label: 'Out of memory', icon: TriangleAlert, tone: 'warn' },
      sandbox_crash_loop: { label: 'Crash loop', icon: TriangleAlert, tone: 'bad' },
      sandbox_lost: { label: 'Sandbox lost', icon: TriangleAlert, tone: 'bad' },
      sandbox_checked: { label: 'Fence tried', icon: ShieldCheck },
      sandbox_expired: { label: 'Sandbox expired', icon: MoonStar },
      sandbox_idle: { label: 'Sandbox idle', icon: MoonStar },
      snapshot_created: { label: 'Snapshot made', icon: Camera },
      snapshot_deleted: { label: 'Snapshot deleted', icon: Camera },
      fence_reconciled: { label: 'Sandboxes found again', icon: ShieldCheck },
    },
  },
  record: {
    label: 'The record',
    kinds: {
      refused: { label: 'Refusal', icon: Ban, tone: 'bad' },
      audit_verified: { label: 'Verification', icon: ShieldCheck },
      events_pruned: { label: 'Events pruned', icon: Scissors, tone: 'warn' },
      retention_changed: { label: 'Retention changed', icon: Archive },
      backup_made: { label: 'Backup', icon: Archive },
    },
  },
}

export const KINDS = new Map(Object.values(GROUPS).flatMap(({ kinds }) => Object.entries(kinds)))

/** How an event of any kind is called, also of one that a later server knows. */
export function kindOf(name: string): Kind {
  const known = KINDS.get(name)
  if (known !== undefined) return known
  const words = name.slice(0, 64).replaceAll('_', ' ')
  return { label: words.charAt(0).toUpperCase() + words.slice(1), icon: CircleDashed }
}

/** Groups as the kinds that are in them. */
export function expanded(chosen: readonly string[]): string[] {
  return [...new Set(chosen.flatMap((name) => (name in GROUPS ? Object.keys(GROUPS[name]!.kinds) : [name])))]
}
