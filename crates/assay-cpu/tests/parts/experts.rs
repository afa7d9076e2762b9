//! Routing: which experts are chosen, how they weigh, what is refused.

use assay_cpu::ops::*;

const PLAIN: Routing = Routing {
    experts: 4,
    top_k: 2,
    scoring: Scoring::Softmax,
    normalize: true,
    groups: 1,
    top_groups: 1,
    group_score: GroupScore::Largest,
    factor: 1.0,
};

fn choose(routing: Routing, logits: &[f32], bias: Option<&[f32]>) -> (Vec<i32>, Vec<f32>) {
    let (mut experts, mut weights) = (vec![0; routing.top_k], vec![0.0; routing.top_k]);
    let context = Context::best();
    route(context, routing, logits, bias, None, &mut experts, &mut weights)
        .expect("a rule that can be met");
    (experts, weights)
}

#[test]
fn padding_has_no_expert() {
    let (mut experts, mut weights) = ([7; 4], [7.0; 4]);
    let logits = [0.0, 2.0, 1.0, -1.0, f32::NAN, 0.0, 0.0, 0.0];
    route(Context::best(), PLAIN, &logits, None, Some(&[5, -1]), &mut experts, &mut weights)
        .unwrap();
    assert_eq!(experts, [1, 2, NO_EXPERT, NO_EXPERT]);
    assert_eq!(weights[2..], [0.0, 0.0]);
    let mut out = [0.0; 1];
    combine_experts(
        Context::best(),
        &[f32::NAN, f32::NAN],
        &weights[2..],
        1,
        Some(&[3.0]),
        None,
        &mut out,
    )
    .unwrap();
    assert_eq!(out, [3.0]);
}

#[test]
fn the_largest_logits_are_chosen_and_normalized() {
    let (experts, weights) = choose(PLAIN, &[0.0, 2.0, 1.0, -1.0], None);
    assert_eq!(experts, [1, 2]);
    let share = 1.0 / (1.0 + (-1.0_f32).exp());
    assert!((weights[0] - share).abs() < 1e-6 && (weights[1] - (1.0 - share)).abs() < 1e-6);
}

#[test]
fn a_bias_chooses_but_does_not_weigh() {
    let routing = Routing { scoring: Scoring::Sigmoid, normalize: false, factor: 2.5, ..PLAIN };
    let (experts, weights) = choose(routing, &[0.0; 4], Some(&[0.0, 0.1, 0.2, 0.3]));
    assert_eq!(experts, [3, 2]);
    assert_eq!(weights, [1.25, 1.25]);
}

#[test]
fn only_the_best_groups_are_considered() {
    let grouped = Routing { groups: 2, top_groups: 1, ..PLAIN };
    let logits = [3.0, -5.0, 2.0, 2.0];
    assert_eq!(choose(grouped, &logits, None).0, [0, 1]);
    let by_two = Routing { group_score: GroupScore::TopTwo, scoring: Scoring::Sigmoid, ..grouped };
    assert_eq!(choose(by_two, &logits, None).0, [2, 3]);
}

#[test]
fn nan_logits_still_name_experts() {
    let (experts, weights) = choose(PLAIN, &[f32::NAN; 4], None);
    assert_eq!(experts, [0, 1]);
    assert!(weights.iter().all(|weight| weight.is_nan()));
}

#[test]
fn outputs_are_summed_by_weight() {
    let mut out = [0.0; 2];
    let shared = Some((&[10.0, 20.0][..], Some(&[0.0][..])));
    let (outputs, weights) = ([1.0, 2.0, 3.0, 4.0], [0.25, 0.75]);
    let context = Context::best();
    combine_experts(context, &outputs, &weights, 2, Some(&[100.0, 0.0]), shared, &mut out).unwrap();
    assert_eq!(out, [107.5, 13.5]);
}

#[test]
fn impossible_rules_are_refused() {
    for routing in [
        Routing { top_k: 5, ..PLAIN },
        Routing { top_k: 0, ..PLAIN },
        Routing { groups: 3, ..PLAIN },
        Routing { groups: 4, top_groups: 1, ..PLAIN },
        Routing { groups: 0, ..PLAIN },
    ] {
        let mut out = ([0; 2], [0.0; 2]);
        let refused =
            route(Context::best(), routing, &[0.0; 4], None, None, &mut out.0, &mut out.1);
        assert!(refused.is_err(), "{routing:?}");
    }
}
