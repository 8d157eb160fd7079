//! Filters for samples and frames.

use flamelet_tests::compare::Duel;
use flamelet_tests::profiles;

const REPORTS: [&str; 3] = ["-top", "-tree", "-traces"];

#[test]
fn focus_and_ignore() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-focus=sort|fill|deposit|handler|grew|module3"],
        &["-focus=^main\\.|parse$"],
        &["-focus=(?i)HANDLER|MAIN"],
        &["-focus=matches-nothing-at-all"],
        &["-ignore=runtime|alloc|Lock|push_back|shrank|layer1"],
        &["-ignore=matches-nothing-at-all"],
        &["-focus=main", "-ignore=sort|scratch|withdraw|parse|gone"],
        // Files and mappings match too.
        &["-focus=main.go|handler.rs|service.c"],
        &["-focus=libthing"],
        &["-ignore=libthing|workload$"],
    ];
    duel.each(&profiles::all(), &REPORTS, options);
    duel.end();
}

#[test]
fn hide_and_show() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-hide=runtime|sort|handler|layer1"],
        &["-hide=main"],
        &["-hide=.*"],
        &["-show=main|parse|module1"],
        &["-show=matches-nothing-at-all"],
        &["-show=main|inner|sync", "-hide=func1|fill|Iterator"],
        &["-show_from=sortNumbers|contention|heap|handler|grew|module2"],
        &["-show_from=matches-nothing-at-all"],
        &["-show_from=inner|double|inlined", "-hide=parse"],
        &["-hide=libthing|main.go"],
        &["-show=libthing|handler.rs|main.go"],
    ];
    duel.each(&profiles::all(), &REPORTS, options);
    duel.end();
}

#[test]
fn prune_from() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-prune_from=sort|fill|deposit|handler|grew|module3"],
        &["-prune_from=inner|Iterator|mix|inlined_5"],
        &["-prune_from=matches-nothing-at-all"],
        &["-prune_from=sort|main", "-focus=main|parse"],
    ];
    duel.each(&profiles::all(), &REPORTS, options);
    duel.end();
}

#[test]
fn tag_focus_and_ignore() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-tagfocus=GET|/sort|shard-1|grew"],
        &["-tagfocus=route=/sort"],
        &["-tagfocus=method=GET"],
        &["-tagfocus=method=GET,POST"],
        &["-tagfocus=GET,POST"],
        &["-tagfocus=shard=shard-[12]"],
        &["-tagfocus=shard=nothing"],
        &["-tagignore=POST|/fib|shard-2|shrank"],
        &["-tagignore=method=POST"],
        &["-tagfocus=128kb:512kb"],
        &["-tagfocus=bytes=128kb:512kb"],
        &["-tagfocus=bytes=64kb"],
        &["-tagfocus=64kb:"],
        &["-tagfocus=:100kb"],
        &["-tagfocus=bytes=1kb:4kb"],
        &["-tagfocus=size=1kb:1mb"],
        &["-tagfocus=latency=1ms:2ms"],
        &["-tagfocus=1ms:2s"],
        &["-tagfocus=requests=10:20"],
        &["-tagignore=128kb:512kb"],
        &["-tagignore=bytes=:64kb"],
        &["-tagignore=size=1kb:"],
        &["-tagfocus=GET", "-tagignore=bytes=64kb"],
        &["-tagfocus=GET|shard-3", "-focus=main|layer2"],
    ];
    duel.each(&profiles::all(), &["-top", "-traces", "-tags"], options);
    duel.end();
}

#[test]
fn tag_show_and_hide() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-tagshow=method|route|shard"],
        &["-tagshow=nothing"],
        &["-taghide=method|route|shard"],
        &["-taghide=bytes|size"],
        &["-tagshow=method|bytes", "-taghide=method"],
    ];
    duel.each(&profiles::all(), &["-tags", "-traces", "-top"], options);
    duel.end();
}

#[test]
fn tag_root_and_leaf() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-tagroot=method"],
        &["-tagroot=route"],
        &["-tagroot=route,tenant"],
        &["-tagroot=bytes"],
        &["-tagroot=shard,size"],
        &["-tagroot=nothing"],
        &["-tagleaf=method"],
        &["-tagleaf=tenant,route"],
        &["-tagleaf=bytes"],
        &["-tagleaf=latency"],
        &["-tagroot=method", "-tagleaf=bytes"],
        &["-tagroot=route", "-focus=sort"],
        &["-tagroot=method", "-lines"],
    ];
    duel.each(&profiles::all(), &REPORTS, options);
    duel.end();
}

#[test]
fn inlined_frames_and_granularity() {
    let Some(mut duel) = Duel::begin() else { return };
    let options: &[&[&str]] = &[
        &["-noinlines"],
        &["-noinlines", "-lines"],
        &["-functions"],
        &["-filefunctions"],
        &["-files"],
        &["-lines"],
        &["-lines", "-showcolumns"],
        &["-addresses"],
        &["-addresses", "-noinlines"],
    ];
    duel.each(&profiles::all(), &REPORTS, options);
    duel.end();
}
