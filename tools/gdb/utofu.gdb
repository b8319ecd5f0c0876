# SPDX-License-Identifier: Apache-2.0
# Commands for gdb, with debug information of libtofucom.so: gdb -x utofu.gdb -p PID. A VCQ is named
# by its handle, or by its place as utofu-vcqs prints it. They read, and take no lock: of a running
# program stop all threads. "call (void)ut_dump()" says what everything waits for.

define utofu-vcqs
  set $i = 2
  while $i < 4096 && ut_vcqs[$i]
    set $v = ut_vcqs[$i]
    if $v->handle
      printf "vcq %d handle 0x%lx tni %d cq %d toq %u/%u mrq %u/%u id 0x%lx%s\n", $i, $v->handle, $v->tni, $v->ident.cq, $v->toq_tail - $v->toq_head, $v->toq_mask + 1, $v->mrq_tail - $v->mrq_head, $v->mrq_mask + 1, $v->id, $v->lock.held || $v->lock.entered ? " locked" : ""
    end
    set $i = $i + 1
  end
end
document utofu-vcqs
utofu-vcqs: every VCQ of the process, with its queues.
end

define utofu-find
  set $v = ut_vcqs[(unsigned long)$arg0 % 4096]
  if !$v
    printf "there is no VCQ in place %lu: see utofu-vcqs\n", (unsigned long)$arg0 % 4096
  end
end
document utofu-find
utofu-find HANDLE: sets $v to the VCQ with this handle, or in this place.
end

define utofu-toq
  utofu-find $arg0
  if $v
    set $i = $v->toq_head
    while $i != $v->toq_tail
      set $s = &$v->toq[$i & $v->toq_mask]
      printf "slot %u ", $i & $v->toq_mask
      output (enum ut_desc_kind)$s->desc.kind
      printf " "
      output (enum ut_slot_state)$s->state
      printf " "
      output (enum ut_slot_stage)$s->stage
      printf " bytes %u to 0x%lx stadd 0x%lx\n", $s->desc.word & 0xffffff, $s->desc.rmt_vcq_id, $s->desc.rmt_stadd
      set $i = $i + 1
    end
  end
end
document utofu-toq
utofu-toq HANDLE: the slots of the VCQ's TOQ that are in use, oldest first.
end

define utofu-links
  utofu-find $arg0
  if $v
    set $l = $v->all_links
    while $l
      printf "link to 0x%lx ", $l->peer
      output (enum ut_link_state)$l->state
      printf " first %d to_post %d armws %u reads %u\n", (int)$l->first, (int)$l->to_post, $l->unordered_out, $l->reads_out
      set $l = $l->all_next
    end
  end
end
document utofu-links
utofu-links HANDLE: the VCQ's links; first and to_post are slots, -1 none.
end
